"""Devices that a tenant holds by kubectl: allocations of no workload, from the same look at the cluster as
the facts of hardware.

So the ledger, which knows such time by the facts, and the bill agree to the microsecond.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet, UUIDField

from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster, MirrorObject
from apps.metering.models import Allocation
from apps.metering.specs import Origin, TroubleKind
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.prepared import Prepared
from apps.quotas.catalogue.rules import prices
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL
from apps.quotas.catalogue.selectors import stock
from apps.quotas.catalogue.selectors.price_book import book_of
from apps.quotas.models import Offer
from apps.quotas.specs import CapacityType, Mechanism

Key = tuple[str, str]
"""The claim's uid (the pod's behind a device plugin), and the device as the ledger names it."""
Match = tuple[Offer | None, str]
_NAMED = 5


@dataclass(frozen=True)
class Taken:
    """A device in the hands of a tenant's claim or pod that is no workload of ours; `in_shares`: the share is
    its part of one that others may hold too.
    """

    tenant: UUID
    gpu: str
    node: str
    numerator: int
    denominator: int
    uuid: str = ""
    in_shares: bool = False

    def is_as(self, row: Allocation) -> bool:
        """Whether it is the same part of a device as is written down."""
        return not self.in_shares or row.part == Fraction(self.numerator, self.denominator)


@transaction.atomic
def keep(
    cluster: Cluster, found: Mapping[Key, Taken], *, over: Mapping[str, datetime], now: datetime
) -> None:
    """Open and end intervals, so that what is held now is open. Idempotent.

    RULE: charged as the offer that the device is of when it is seen; None where no offer is like it. An offer
    that comes or goes, and another part of a device, begins a new interval: what was held before stays as it
    was. `over`: since when
    somebody else holds what a claim held.
    """
    open_ = {(row.claim_uid, row.device): row for row in _HELD(cluster.pk)}
    match = _matcher(cluster) if found else lambda _: (None, "")
    ended, made = [row for key, row in open_.items() if key not in found], []
    for key, taken in found.items():
        offer, capacity = match(key[1])
        row = open_.get(key)
        if row is not None and row.offer_id == (offer.pk if offer else None) and taken.is_as(row):
            _complete(row, taken)
            continue
        ended += [row] if row else []
        made.append(
            Allocation(
                origin=Origin.KUBECTL, created_at=now, cluster=cluster, tenant_id=taken.tenant,
                offer=offer, capacity=capacity, claim_uid=key[0],
                device=key[1], gpu=taken.gpu, node=taken.node, share_numerator=taken.numerator,
                share_denominator=taken.denominator, started_at=now, device_uuid=taken.uuid,
                root=_root(cluster, key[0]), in_shares=taken.in_shares,
            )
        )  # fmt: skip
    for row in ended:
        row.ended_at = max(row.started_at, over.get(row.claim_uid, now))
    Allocation.objects.bulk_update(ended, ["ended_at"])
    Allocation.objects.bulk_create(made, batch_size=500)


def _held(cluster: Any) -> QuerySet[Allocation]:
    """What is held by kubectl at this moment."""
    rows = Allocation.objects.filter(cluster=cluster, origin=Origin.KUBECTL, ended_at=None)
    return rows.select_related("cluster", "tenant", "offer")


_HELD = Prepared(_held, UUIDField())


def _complete(row: Allocation, taken: Taken) -> None:
    """What was not told yet when it began."""
    told = {
        "device_uuid": row.device_uuid or taken.uuid,
        "root": row.root or _root(row.cluster, row.claim_uid),
    }
    if told != {"device_uuid": row.device_uuid, "root": row.root}:
        Allocation.objects.filter(pk=row.pk).update(**told)


def _root(cluster: Cluster, uid: str) -> str:
    """What kubectl has to delete to end a claim or pod: what made the pod, else the pod; "" is not known."""
    known = MirrorObject.objects.filter(cluster=cluster)
    claim = known.filter(kind="ResourceClaim", uid=uid).first()
    users = (claim.body.get("status") or {}).get("reservedFor") or [] if claim else [{"uid": uid}]
    used_by: Mapping[str, Any] = next((each for each in users if each.get("resource", "pods") == "pods"), {})
    pod = known.filter(kind="Pod", uid=used_by.get("uid", "")).first()
    if pod is None:
        return f"pod/{used_by['name']}" if used_by.get("name") else ""
    owners = pod.body["metadata"].get("ownerReferences") or []
    maker = next((each for each in owners if each.get("controller")), None)
    if maker is None:
        return f"pod/{pod.name}"
    # A ReplicaSet that is deleted is made anew by the Deployment that it has its name of.
    stamp = (pod.body["metadata"].get("labels") or {}).get("pod-template-hash")
    stem = str(maker["name"]).removesuffix(f"-{stamp}")
    is_deployed = maker["kind"] == "ReplicaSet" and stem != maker["name"]
    return f"deployment/{stem}" if is_deployed else f"{maker['kind'].lower()}/{maker['name']}"


def unpriced(cluster: Cluster, *, now: datetime) -> list[Trouble]:
    """What is held by kubectl at this moment and charged to nobody, because the book has no price for it: a
    trouble per node, with what to do.
    """
    by_node: dict[str, list[Allocation]] = {}
    for row in _without_price(_HELD(cluster.pk), now):
        by_node.setdefault(row.node, []).append(row)
    return [Trouble(TroubleKind.NO_PRICE, node, _words(held)) for node, held in sorted(by_node.items())]


def _without_price(rows: list[Allocation], now: datetime) -> Iterable[Allocation]:
    book = book_of({row.offer_id for row in rows if row.offer_id})
    for row in rows:
        listed = book.get(row.offer_id, []) if row.offer_id else []
        if prices.in_force(listed, tenant=row.tenant_id, capacity=row.capacity, at=now) is None:
            yield row


def _words(held: list[Allocation]) -> str:
    what = sorted({f"{row.device} of {row.tenant.slug}" for row in held})
    more = f" and {len(what) - _NAMED} more" if len(what) > _NAMED else ""
    offers = sorted({row.offer.slug for row in held if row.offer})
    cure = f" Set a price of {', '.join(offers)} at /console/offers/." if offers else ""
    if any(row.offer is None for row in held):
        cure += " Some of these devices match no offer: adopt the fleet's offers at /console/offers/."
    return (
        f"Held with kubectl and without a price: {', '.join(what[:_NAMED])}{more}. The ledger and the bill"
        f" have this time, charged at 0.{cure} A price never counts for the time before it."
    )


def _matcher(cluster: Cluster) -> Callable[[str], Match]:
    """The offer that a device is of, and how its node was bought; enabled offers first."""
    known = Offer.objects.filter(cluster=cluster, deleted_at=None).select_related("flavor")
    offers = list(known.order_by("-enabled", "slug"))
    devices = clusters.devices_by_name(cluster)
    nodes = {node.name: node for node in clusters.nodes(cluster)}

    def match(name: str) -> Match:
        if (device := devices.get(name)) is not None:
            direct = (o for o in offers if o.mechanism == Mechanism.DRA and stock.is_of(device, o))
            return next(direct, None), _capacity(device.labels)
        node_name, _, resource = name.partition("#")[0].partition("/")
        if (node := nodes.get(node_name)) is None:
            return None, ""
        shared = (
            o for o in offers
            if o.mechanism == Mechanism.DEVICE_PLUGIN and o.resource_name == resource
            and stock.carries(node, o)
        )  # fmt: skip
        return next(shared, None), _capacity(node.labels)

    return match


def _capacity(labels: Mapping[str, str]) -> str:
    found = str(labels.get(CAPACITY_LABEL, ""))
    return found if found in set(CapacityType) else ""
