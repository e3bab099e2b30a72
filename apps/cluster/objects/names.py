"""Every name, label and annotation that we write on Kubernetes objects, and the rules they follow. Pure."""

import base64
import hashlib
import re
import unicodedata
from uuid import UUID

MANAGER = "allotment"
"""Our field manager in server-side apply."""

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_TENANT = "allotment.dev/tenant"
"""On our objects: whose they are. On a node, label and taint: the one tenant that it serves."""
LABEL_UID = "allotment.dev/uid"
LABEL_OWNER = "allotment.dev/owner"
LABEL_MANAGED = "allotment.dev/managed"
LABEL_CORES = "allotment.dev/cores-of"
"""On pods without a device: the flavor on whose cores they are to run."""
LABEL_INGRESS = "allotment.dev/ingress"
"""On pods that are opened; `proxy`: nobody but the proxy may connect to them, but where they have a network
policy of their own.
"""
INGRESS_PORTS = ("http", "ide")
"""The names of the ports at which such pods are opened."""
ANNOTATION_GENERATION = "allotment.dev/generation"
ANNOTATION_CORDONED = "allotment.dev/cordoned-for"
"""On a node: the assignment that cordoned it. An operator's own cordon carries none and is never lifted."""
ANNOTATION_SYNCER = "allotment.dev/vcluster-syncer"
"""On a tenant's namespace: the one account that may set owner references in it, its virtual cluster's."""

LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
LABEL_PRIORITY = "kueue.x-k8s.io/priority-class"
LABEL_JOB_UID = "kueue.x-k8s.io/job-uid"

MANAGED_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGER}"

RESERVED_PREFIXES = (
    "allotment.dev/",
    "app.kubernetes.io/",
    "kueue.x-k8s.io/",
    "kubernetes.io/",
    "k8s.io/",
    "nvidia.com/",
)
"""Label and annotation domains that people may not set through us; subdomains are reserved with them."""

LONGEST_SLUG, LEAST_OF_WORD = 40, 8
SUFFIX_LENGTH = 10
"""Of what `object_name` puts behind a slug."""
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def owner_labels(*, owner: str, uid: object, tenant: str | None = None) -> dict[str, str]:
    """The labels by which an object is found again: ours, of which row (`owner` is its kind), of which
    tenant.

    Pruning deletes only what carries our managed-by label and this row's uid.
    """
    labels = {LABEL_MANAGED_BY: MANAGER, LABEL_OWNER: owner, LABEL_UID: str(uid)}
    return labels | {LABEL_TENANT: tenant} if tenant else labels


def object_name(slug: str, uid: UUID) -> str:
    """`<slug up to 40>-<10 characters base32 of the uuid>`: a valid name of every kind, made once and stored.

    The characters come from the end of the uuid, which is random in version 4 and version 7 alike.
    """
    tail = base64.b32encode(uid.bytes[-7:]).decode().lower()[:SUFFIX_LENGTH]
    head = slug[:LONGEST_SLUG].strip("-")
    return f"{head}-{tail}" if head else f"x-{tail}"


def slugify(text: str) -> str:
    """The slug of a name that people typed: `[a-z][a-z0-9-]{0,39}`; `x` leads where no letter does, never
    empty.
    """
    slug = _dashed(text)
    if not slug[:1].isalpha():
        slug = f"x-{slug}".rstrip("-")
    return slug[:LONGEST_SLUG].rstrip("-")


def slug_of(word: str, *marks: str) -> str:
    """The slug of a word, and of what tells it from others of that word: the word is what is cut.

    RULE: where 8 characters of the word are too many still, the longest mark is cut, and ends with four of
    its digest.
    """
    kept = [mark for mark in map(_dashed, marks) if mark]
    beyond = sum(len(mark) + 1 for mark in kept) + LEAST_OF_WORD - LONGEST_SLUG
    if beyond > 0:
        longest = max(kept, key=len)
        digest = hashlib.sha256(longest.encode()).hexdigest()[:4]
        kept[kept.index(longest)] = f"{longest[: -beyond - 5].rstrip('-')}-{digest}"
    room = LONGEST_SLUG - sum(len(mark) + 1 for mark in kept)
    return "-".join([slugify(word)[:room].rstrip("-"), *kept])


def _dashed(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def is_reserved(key: str) -> bool:
    """Whether a label or annotation key lies in a domain that only the product or the cluster may write."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(f".{domain}/".endswith(f".{prefix}") for prefix in RESERVED_PREFIXES)


def is_label_value(value: str) -> bool:
    """Whether Kubernetes takes it as a label's value: up to 63 of letters, digits, `-_.`, ends
    alphanumeric.
    """
    return _LABEL_VALUE.fullmatch(value) is not None
