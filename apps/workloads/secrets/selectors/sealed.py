"""The secrets of a workload: who set them and when, and, for the reconcile alone, what is in them. What is
said to its IDE. Reads only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import QuerySet

from apps import sealing
from apps.errors import NotFound
from apps.workloads.models import Workload, WorkloadSecret

SALT = ".salt"
"""A key that no secret can have. What it holds is known to who has the installation's secret key, so that the
digest that the mirror keeps of a manifest lets nobody try values.
"""


@dataclass(frozen=True)
class Unsealed:
    """What could be read, by name, and the names of which nothing could: their secret key was another one."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    unreadable: tuple[str, ...] = ()


def secrets_of(row: Workload) -> QuerySet[WorkloadSecret]:
    """By name, without what is sealed."""
    return WorkloadSecret.objects.filter(workload=row).defer("sealed").order_by("name")


def secret_of(row: Workload, name: str) -> WorkloadSecret:
    """One of them; raises NotFound."""
    found = secrets_of(row).filter(name=name).first()
    if found is None:
        raise NotFound
    return found


def unsealed(row: Workload) -> Unsealed:
    """What its Secret holds. RULE: only the reconcile asks this; no query where there is none.

    What its pods name and was removed is empty; what cannot be read is left out, so that nothing starts
    without it.
    """
    if not row.secret_names and not row.run_secrets:
        return Unsealed()
    values, unreadable = {name: "" for name, _ in row.run_secrets}, []
    for secret in WorkloadSecret.objects.filter(workload=row).order_by("name"):
        try:
            values[secret.name] = sealing.unseal(secret.sealed, sealing.SECRET)
        except ValueError:
            values.pop(secret.name, None)
            unreadable.append(secret.name)
    salt = {SALT: sealing.derived(sealing.SALT, str(row.pk))} if values else {}
    return Unsealed({**values, **salt}, tuple(unreadable))


def ide_token(row: Workload) -> str:
    """What the IDE of its present run wants to hear. Raises `sealing.KeyMissing` where the run began under a
    secret key that is not among the settings any more.
    """
    return sealing.derived(sealing.IDE, str(row.pk), row.run_key or sealing.oldest_key())
