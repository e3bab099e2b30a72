"""Taking over a namespace that was there before: named by a platform engineer, its content shown first."""

from datetime import datetime

from django.db import IntegrityError, transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, Invalid, NotAllowed
from apps.tenants import policies
from apps.tenants.isolation.content import Content, problem_of
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant


@transaction.atomic
def take_over(*, actor: Actor, tenant: Tenant, content: Content, seen: str, now: datetime) -> Tenant:
    """Makes an existing namespace the tenant's, in the transaction in which the tenant is made.

    Rule: platform engineers; not a system's or another tenant's namespace; `seen` must be the fingerprint of
    the content as it is now. What lies in it stays; at the tenant's deletion it is given back, not deleted.
    """
    require_taker(actor)
    problem = problem_of(content)
    if problem:
        raise Invalid([problem])
    if seen != content.seen:
        words = f"{content.name} holds {content.total} objects, and nobody has confirmed seeing them."
        raise Conflict(
            words, hint="Read its content, then send the `seen` that comes with it.", seen=content.seen
        )
    row = tenancy.locked(tenant)
    if row.observed_generation or row.deleting_at is not None:
        raise Conflict(
            f"{row.slug} already has a namespace.", hint="Name the namespace when you make the tenant."
        )
    row.object_name, row.is_namespace_adopted = content.name, True
    try:
        with transaction.atomic():
            tenancy.touch(row, "object_name", "is_namespace_adopted")
    except IntegrityError:
        raise _taken(content.name) from None
    taken = {"namespace": [None, content.name], "objects": [None, content.total]}
    audit.record(actor, "tenant.take-over", row, now=now, changes=taken)
    return row


def _taken(name: str) -> AlreadyExists:
    """RULE: a name stays its tenant's for ever, on every cluster: records and costs of the past go by it."""
    owner = Tenant.objects.select_related("cluster").get(object_name=name)
    verb = "was, until that was deleted," if owner.deleted_at else "is"
    return AlreadyExists(
        f"{name} {verb} the namespace of {owner.slug} on {owner.cluster.slug}; no other tenant can have it.",
        hint="Name another namespace, or make the tenant with one of its own and move the objects into that.",
    )


def require_taker(actor: Actor) -> None:
    """Rule: platform engineers take namespaces over; raises NotAllowed."""
    if not policies.can_manage_tenants(actor):
        raise NotAllowed("Only a platform engineer takes over a namespace.")
