"""Image references: written out in full, and whether one lies below a registry or a repository. Pure.

Grammar and defaults are those of distribution/reference: without a registry it is docker.io, there without a
namespace `library`, and without tag and digest the tag `latest`.
"""

import re
from collections.abc import Iterable

from apps.errors import FieldProblem
from apps.workloads.spec import parsing

USUAL = "docker.io"
MOST_PREFIXES = 50
_PREFIX = re.compile(rf"{parsing.HOST_PATTERN}(?::[0-9]{{1,5}})?(?:/{parsing.PART_PATTERN})*", re.ASCII)


def full(reference: str) -> str:
    """The reference with registry, namespace and tag written out: two spellings of one image are equal."""
    host, path = _split(reference)
    name, at, digest = path.partition("@")
    # The last part alone has a tag.
    is_bare = not at and ":" not in name.rpartition("/")[2]
    return f"{host}/{name}{at}{digest}{':latest' if is_bare else ''}"


def is_below(reference: str, prefix: str) -> bool:
    """Whether the image lies in the registry, namespace or repository that `prefix` names.

    Rule: only at a border of parts, so that `quay.io` is neither `quay.io.example` nor `quay.io:5000`.
    """
    where, wanted = full(reference), written(prefix)
    borders = "/:@" if "/" in wanted else "/"
    return where.startswith(wanted) and where[len(wanted) : len(wanted) + 1] in tuple(borders)


def written(prefix: str) -> str:
    """A prefix as it is kept: its registry in lower case, without a slash at its end."""
    host, slash, path = prefix.strip().rstrip("/").partition("/")
    return f"{_host(host)}{slash}{path}"


def problems_of(prefixes: Iterable[str], pointer: str) -> list[FieldProblem]:
    """What is wrong with a list of prefixes."""
    words = "A registry, such as quay.io or quay.io/jupyter."
    return [
        FieldProblem(f"{pointer}/{place}", "invalid_value", words)
        for place, prefix in enumerate(map(written, prefixes))
        if not (_PREFIX.fullmatch(prefix) and _is_host(prefix.partition("/")[0]))
    ]


def _split(reference: str) -> tuple[str, str]:
    """Registry, and the path in it."""
    first, slash, rest = reference.partition("/")
    if slash and _is_host(first):
        host, path = _host(first), rest
    else:
        host, path = USUAL, reference
    bare = path.partition("@")[0]
    return host, f"library/{path}" if host == USUAL and "/" not in bare else path


def _is_host(text: str) -> bool:
    return "." in text or ":" in text or text.lower() == "localhost"


def _host(text: str) -> str:
    host = text.lower()
    return USUAL if host in ("index.docker.io", "registry-1.docker.io") else host
