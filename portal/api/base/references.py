"""Finds the tenants, departments and offers that a request names, if the caller sees them; else refuses them
as unknown.
"""

from collections.abc import Callable
from typing import TypeVar

from rest_framework.request import Request

from apps.accounts.specs import Actor
from apps.errors import FieldProblem, Invalid, NotFound
from apps.quotas.catalogue.selectors import offers
from apps.quotas.models import Offer
from apps.tenants import selectors as tenancy
from apps.tenants.models import Department, Tenant
from apps.web.problems.refusals import BadParameter
from portal.api.base.views import ApiView
from portal.api.declared.queries import Text

Row = TypeVar("Row")
TENANT = Text("tenant", "Of this tenant, by slug or id.")


def tenant_in(actor: Actor, key: str) -> Tenant:
    """The tenant that a body names in `/tenant`."""
    return found("/tenant", lambda: tenancy.tenant_for(actor, key))


def department_in(actor: Actor, key: str) -> Department:
    """The department that a body names in `/department`."""
    return found("/department", lambda: tenancy.department_for(actor, key))


def offer_in(actor: Actor, key: str) -> Offer:
    """The offer that a body names in `/spec/offer`."""
    return found("/spec/offer", lambda: offers.offer_for(actor, key))


def asked_tenant(view: ApiView, request: Request) -> Tenant | None:
    """The tenant of `?tenant=`; None where it is absent."""
    key = TENANT.of(request)
    if key is None:
        return None
    try:
        return tenancy.tenant_for(view.actor, key)
    except NotFound:
        raise BadParameter("tenant", "There is no such tenant.") from None


def found(pointer: str, find: Callable[[], Row], words: str = "There is none that you may see.") -> Row:
    """What `find` finds; what is unknown or invisible is a wrong field at `pointer`, not a 404."""
    try:
        return find()
    except NotFound:
        raise Invalid([FieldProblem(pointer, "reference_not_found", words)]) from None
