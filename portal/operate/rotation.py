"""The change of the installation's secret key: what is sealed is sealed anew, and what still needs a key from
before is counted. docs/operating.md has the way of it.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Model

from apps import sealing
from apps.accounts.models import Authenticator, RecoveryCode
from apps.accounts.specs import system_actor
from apps.audit import services as audit
from apps.audit.specs import Target
from apps.cluster.models import Cluster
from apps.tenants.models import RegistryCredential
from apps.workloads.models import Workload, WorkloadSecret
from apps.workloads.specs import Kind, Phase
from portal.operate.findings import Finding, note, ok, wrong

AT_ONCE = 500
"""Rows in one statement."""
ROTATOR = system_actor("operator")
ANEW = "Stop and start the notebooks; tell the people to make new codes"
LATER = "Nothing to do; take the old keys out of ALLOTMENT_OLD_SECRET_KEYS once none is left"


@dataclass(frozen=True)
class Sealed:
    """A column of sealed texts, in the words that people know it by."""

    model: type[Model]
    column: str
    purpose: str
    words: str


SEALED = (
    Sealed(Cluster, "kubeconfig_sealed", sealing.KUBECONFIG, "kubeconfigs"),
    Sealed(RegistryCredential, "sealed", sealing.REGISTRY, "logins of registries"),
    Sealed(WorkloadSecret, "sealed", sealing.SECRET, "secrets of workloads"),
    Sealed(Authenticator, "sealed", sealing.AUTHENTICATOR, "authenticator apps"),
)


@dataclass(frozen=True)
class Count:
    """How many texts of a column the key in force opens, one from before, and none of ours."""

    words: str
    current: int
    former: int
    unreadable: int


def counts() -> Iterator[Count]:
    """Of every column, each text opened once."""
    for column in SEALED:
        seen = Counter(_state(column, text) for _, text in _texts(column))
        yield Count(column.words, seen["current"], seen["former"], seen["unreadable"])


def rotate(now: datetime) -> dict[str, int]:
    """Seal anew what is sealed with a key from before; how many texts, by the words of their column.

    It may run while people work, and again: a row that somebody changes meanwhile keeps what they set. What
    no key opens is left as it is. What names no key gets the name of the oldest, before that is gone.
    """
    if sealing.former_keys():
        RecoveryCode.objects.filter(key="").update(key=sealing.oldest_key())
        Workload.objects.filter(run_key="").update(run_key=sealing.oldest_key())
    done = {column.words: sum(map(_resealed, _former(column))) for column in SEALED}
    if any(done.values()):
        with transaction.atomic():
            on = Target("installation", sealing.key_in_force(), "secret key")
            audit.record(ROTATOR, "secret-key.rotated", on, now=now, changes={"sealed": [None, done]})
    return done


def still_needed() -> dict[str, int]:
    """What works by a key from before and cannot be sealed anew, with how much of it there is."""
    return _by_keys(sealing.former_keys()) if sealing.former_keys() else {}


def _by_keys(names: Collection[str]) -> dict[str, int]:
    """What was derived from the secret keys of these names."""
    people = RecoveryCode.objects.filter(key__in=names, used_at=None).values("user").distinct().count()
    running = Workload.objects.filter(
        kind=Kind.NOTEBOOK, run_key__in=names, phase__in=(Phase.STARTING, Phase.RUNNING)
    )
    counted = {"running notebooks": running.count(), "people's recovery codes": people}
    return {words: count for words, count in counted.items() if count}


def _lost() -> dict[str, int]:
    keys = RecoveryCode.objects.filter(used_at=None).values_list("key", flat=True).distinct()
    runs = Workload.objects.filter(kind=Kind.NOTEBOOK).values_list("run_key", flat=True).distinct()
    return _by_keys({*keys, *runs} - {"", sealing.key_in_force(), *sealing.former_keys()})


def check() -> Iterator[Finding]:
    """Whether everything that is sealed can be opened, and what still needs keys from before."""
    seen = list(counts())
    lost = {each.words: each.unreadable for each in seen if each.unreadable}
    former = {each.words: each.former for each in seen if each.former}
    if lost:
        cure = "Put the key that sealed it into ALLOTMENT_OLD_SECRET_KEYS, or set it anew"
        yield wrong("sealed texts", f"no secret key opens {in_words(lost)}", cure)
    if former:
        cure = "Run `manage.py rotate_secret_key`"
        yield note("sealed texts", f"sealed with a key from before: {in_words(former)}", cure)
    if not lost and not former:
        yield ok("sealed texts", f"{sum(each.current for each in seen)}, all with the secret key in force")
    if needed := still_needed():
        yield note("old secret keys", f"still needed by {in_words(needed)}", LATER)
    if gone := _lost():
        yield note("old secret keys", f"{in_words(gone)} are of a secret key that is not here", ANEW)


def in_words(amounts: dict[str, int]) -> str:
    """Such as `2 kubeconfigs, 1 authenticator apps`."""
    return ", ".join(f"{count} {words}" for words, count in amounts.items() if count)


def _texts(column: Sealed) -> Iterator[tuple[object, str]]:
    rows = column.model._default_manager.exclude(**{column.column: ""}).order_by("pk")
    return rows.values_list("pk", column.column).iterator(AT_ONCE)


def _state(column: Sealed, text: str) -> str:
    try:
        sealing.unseal(text, column.purpose)
    except ValueError:
        return "unreadable"
    return "current" if sealing.key_of(text) == sealing.key_in_force() else "former"


def _former(column: Sealed) -> Iterator[tuple[Sealed, object, str]]:
    for pk, text in _texts(column):
        if _state(column, text) == "former":
            yield column, pk, text


def _resealed(row: tuple[Sealed, object, str]) -> int:
    column, pk, text = row
    anew = sealing.seal(sealing.unseal(text, column.purpose), column.purpose)
    # Only over the text that was read: whoever sets another one meanwhile has the last word.
    as_read = column.model._default_manager.filter(**{"pk": pk, column.column: text})
    return as_read.update(**{column.column: anew})
