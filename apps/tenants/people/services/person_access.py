"""Closing and opening a person's account, in the portal and in every cluster at once.

Lies above accounts, because a closed account loses its bindings in the namespaces of its tenants too.
"""

from datetime import datetime

from django.db import transaction

from apps.accounts import people
from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant


@transaction.atomic
def set_active(*, actor: Actor, user: User, is_active: bool, now: datetime) -> None:
    """See `apps.accounts.people.set_active`; every tenant of the person is brought to the cluster anew, where
    a closed account's binding goes first. The same again changes nothing.
    """
    if people.set_active(actor=actor, user=user, is_active=is_active, now=now):
        for tenant in Tenant.objects.filter(memberships__user=user, deleted_at=None).order_by("pk"):
            tenancy.touch(tenancy.locked(tenant))
