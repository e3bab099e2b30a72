"""The disks that deleted workloads left behind, as the mirror has them now. Reads only."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.cluster.models import MirrorObject
from apps.cluster.objects import quantities
from apps.quotas.catalogue.rules import prices
from apps.quotas.catalogue.selectors.price_book import book_of_resources
from apps.quotas.specs import Priced
from apps.tenants.models import Tenant
from apps.tenants.selectors import seen_by
from apps.web.requests.lookups import by_id
from apps.workloads.models import Workload


@dataclass(frozen=True)
class KeptDisk:
    """A volume claim whose workload is gone. `hourly` is what its storage costs while a workload holds it;
    None: no price.
    """

    workload: Workload
    name: str
    size_bytes: int
    made_at: datetime | None
    hourly: Decimal | None


def kept_by(actor: Actor, tenant: Tenant) -> QuerySet[Workload]:
    """The tenant's deleted workloads whose disks are still there, if the actor sees the tenant."""
    gone = Workload.objects.filter(
        tenant=tenant, tenant__in=seen_by(actor), keep_volumes=True, deleted_at__isnull=False
    )
    there = set(_claims(gone.values_list("pk", flat=True)).values_list("owner_id", flat=True))
    return gone.filter(pk__in=there).select_related("tenant__department", "cluster", "owner", "offer__flavor")


def kept_for(actor: Actor, tenant: Tenant, pk: str | UUID) -> Workload:
    """One of them by id; raises NotFound."""
    return by_id(kept_by(actor, tenant), pk)


def disks(actor: Actor, tenant: Tenant, *, now: datetime) -> list[KeptDisk]:
    """The tenant's kept disks, oldest first."""
    rows = {str(row.pk): row for row in kept_by(actor, tenant)}
    book = book_of_resources().get(Priced.STORAGE, [])
    price = prices.in_force(book, tenant=tenant.pk, capacity="", at=now)
    return [
        _disk(rows[claim.owner_id], claim, None if price is None else price.hourly)
        for claim in _claims(rows).order_by("created_at", "name")
    ]


def _claims(owners: Iterable[str | UUID]) -> QuerySet[MirrorObject]:
    ids = [str(each) for each in owners]
    return MirrorObject.objects.filter(
        kind="PersistentVolumeClaim", owner_id__in=ids, gone_at=None, deleting=False
    )


def _disk(row: Workload, claim: MirrorObject, price: Decimal | None) -> KeptDisk:
    asked = (((claim.body.get("spec") or {}).get("resources") or {}).get("requests") or {}).get(
        "storage", "0"
    )
    size = quantities.memory_bytes(asked)
    hourly = None if price is None else price * size / 2**30
    return KeptDisk(row, claim.name, size, claim.created_at, hourly)
