"""A workload's secrets set, replaced and removed. What is in them is sealed at once and told to nobody again.

A variable counts from the workload's next start; so does the name of a file. A replaced or removed file
changes in the running container within about a minute.
"""

from datetime import datetime

from django.db import transaction

from apps import sealing
from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import Invalid, NotFound
from apps.workloads.changes.services import writing
from apps.workloads.models import Workload, WorkloadSecret
from apps.workloads.secret_specs import SecretWish
from apps.workloads.secrets.rules import wishes as rules
from apps.workloads.specs import WorkloadRequest


@transaction.atomic
def set_secret(*, actor: Actor, workload: Workload, wish: SecretWish, now: datetime) -> WorkloadSecret:
    """A value under a name, in place of what was set before. Rule: as resume; not what has ended.

    The audit record says who and which name.
    """
    row = writing.locked(actor, workload)
    writing.require_alive(row)
    problems = rules.problems_of(wish)
    found = WorkloadSecret.objects.filter(workload=row, name=wish.name).first()
    if found is None and len(row.secret_names) >= rules.MOST_SECRETS:
        problems = [rules.too_many()]
    if problems:
        raise Invalid(problems)
    before = found and found.set_by
    kept = found or WorkloadSecret(workload=row, name=wish.name)
    _seal(kept, wish, actor, now)
    kept.save()
    _list(row)
    changes = {"secret": [before and wish.name, wish.name], "into": [None, wish.into]}
    audit.record(actor, "workload.set-secret", row, now=now, changes=changes)
    writing.note(row, now, "SecretSet", f"{actor.username} set the secret {wish.name}.")
    writing.changed(row)
    return kept


@transaction.atomic
def remove_secret(*, actor: Actor, workload: Workload, name: str, now: datetime) -> None:
    """Forget it. Rule: as setting it, and also of what has ended."""
    row = writing.locked(actor, workload)
    gone, _ = WorkloadSecret.objects.filter(workload=row, name=name).delete()
    if not gone:
        raise NotFound
    _list(row)
    audit.record(actor, "workload.remove-secret", row, now=now, changes={"secret": [name, None]})
    writing.note(row, now, "SecretRemoved", f"{actor.username} removed the secret {name}.")
    writing.changed(row)


def keep_new(row: Workload, request: WorkloadRequest, actor: Actor, now: datetime) -> None:
    """Those of a workload that was just stored: its own, which were judged before, and of a copy those of
    its original that it has no value for.

    RULE: only whoever owns both gets them: a copy is no way to read what somebody else set.
    """
    if not request.secrets and not request.like:
        return
    made = [WorkloadSecret(workload=row, name=wish.name) for wish in request.secrets]
    for secret, wish in zip(made, request.secrets, strict=True):
        _seal(secret, wish, actor, now)
    if request.like:
        made += _copies(row, request)
    if len(made) > rules.MOST_SECRETS:
        raise Invalid([rules.too_many()])
    if made:
        WorkloadSecret.objects.bulk_create(made)
        _list(row)
        row.run_secrets = row.secret_names
        row.save(update_fields=["secret_names", "run_secrets"])


def _copies(row: Workload, request: WorkloadRequest) -> list[WorkloadSecret]:
    theirs = WorkloadSecret.objects.filter(workload_id=request.like, workload__owner=row.owner_id)
    theirs = theirs.exclude(name__in=[wish.name for wish in request.secrets])
    return [
        WorkloadSecret(
            workload=row, name=of.name, into=of.into, sealed=of.sealed, set_by=of.set_by, set_at=of.set_at
        )
        for of in theirs
    ]


def forget(row: Workload) -> None:
    """With its deletion, also where its disks are kept."""
    if row.secret_names:
        WorkloadSecret.objects.filter(workload=row).delete()
        row.secret_names = []


def _seal(secret: WorkloadSecret, wish: SecretWish, actor: Actor, now: datetime) -> None:
    secret.into, secret.set_by, secret.set_at = wish.into, actor.username, now
    secret.sealed = sealing.seal(wish.value, sealing.SECRET)


def _list(row: Workload) -> None:
    names = WorkloadSecret.objects.filter(workload=row).order_by("name").values_list("name", "into")
    row.secret_names = [list(pair) for pair in names]
