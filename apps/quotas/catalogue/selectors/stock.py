"""How many devices of each offer a cluster has, has given out, and has free. Reads the mirror only."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Sum

from apps.cluster import request_cache
from apps.cluster.mirror.rules.hardware import DeviceView, NodeView
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.cluster.objects.names import LABEL_TENANT
from apps.cluster.objects.quantities import whole_number
from apps.quotas.catalogue.selectors import offers
from apps.quotas.kueue import observation
from apps.quotas.models import Grant, Offer, Quota
from apps.quotas.specs import GPU_DRIVER, Mechanism


@dataclass(frozen=True)
class Supply:
    """An offer's devices in the whole cluster: how many there are, are given out, and are free on nodes that
    work.
    """

    capacity: int
    allocated: int
    free: int


def supply(cluster: Cluster) -> dict[UUID, Supply]:
    """Every offer of the cluster with its devices, from the mirrored ResourceSlices and ResourceClaims.

    A device counts for an offer by model, MIG profile and the flavor's node labels; it is free when no claim
    has it, it carries no taint, and its node is ready and not cordoned. Shares of a device plugin are counted
    on the nodes: what is allocatable, less what their pods ask for.
    """
    return request_cache.memo(("supply", cluster.pk), lambda: _supply(cluster))


def _supply(cluster: Cluster) -> dict[UUID, Supply]:
    nodes = inventory.nodes(cluster)
    working = {node.name for node in nodes if node.schedulable}
    held = inventory.held_devices(cluster).keys()
    alike: dict[tuple[str, str], list[DeviceView]] = {}
    for device in inventory.devices(cluster):
        alike.setdefault((device.model, device.profile), []).append(device)
    found = {}
    for offer in offers.offers_in(cluster.pk):
        if offer.mechanism == Mechanism.DEVICE_PLUGIN:
            found[offer.pk] = _shares(cluster, offer, [node for node in nodes if carries(node, offer)])
            continue
        own = [d for d in alike.get((offer.flavor.model, offer.profile), ()) if is_of(d, offer)]
        taken = sum(1 for device in own if device.key in held)
        free = sum(1 for d in own if d.key not in held and d.node in working and not d.tainted)
        found[offer.pk] = Supply(len(own), taken, free)
    return found


def capacity_of(offer: Offer) -> int:
    """How many devices of the offer its cluster has, working or not."""
    return supply(offer.cluster).get(offer.pk, Supply(0, 0, 0)).capacity


def promised(offer: Offer, *, now: datetime) -> int:
    """How many devices of the offer all tenants together are guaranteed at a moment, grants included."""
    alive = {"offer": offer, "tenant__deleted_at": None}
    quotas = Quota.objects.filter(**alive).aggregate(total=Sum("nominal_quota"))["total"] or 0
    grants = Grant.objects.filter(**alive, starts_at__lte=now, ends_at__gt=now)
    return quotas + (grants.aggregate(total=Sum("count"))["total"] or 0)


def is_of(device: DeviceView, offer: Offer) -> bool:
    """Whether a device is one of the offer's: by driver, model, MIG profile and the flavor's node labels.

    A device on one tenant's nodes is none of an offer to everybody.
    """
    same = (device.driver, device.model, device.profile) == (GPU_DRIVER, offer.flavor.model, offer.profile)
    return same and _suits(device.labels, offer)


def carries(node: NodeView, offer: Offer) -> bool:
    """Whether a node's shares are the offer's: by the flavor's node labels and the plugin's name for them."""
    return _suits(node.labels, offer) and offer.resource_name in node.resources


def _suits(labels: Mapping[str, str], offer: Offer) -> bool:
    wanted = offer.flavor.node_labels
    same_tenant = labels.get(LABEL_TENANT, "") == wanted.get(LABEL_TENANT, "")
    return same_tenant and bool(wanted.items() <= labels.items())


def _shares(cluster: Cluster, offer: Offer, nodes: Sequence[NodeView]) -> Supply:
    asked = Counter({node.name: 0 for node in nodes})
    pods = inventory.objects(cluster, "Pod").filter(body__spec__nodeName__in=list(asked))
    for body in pods.exclude(body__status__phase__in=["Succeeded", "Failed"]).values_list("body", flat=True):
        asked[body["spec"]["nodeName"]] += observation.limit_of(body, offer.resource_name)
    sizes = {node.name: whole_number(node.resources[offer.resource_name]) for node in nodes}
    free = sum(max(0, sizes[node.name] - asked[node.name]) for node in nodes if node.schedulable)
    return Supply(sum(sizes.values()), asked.total(), free)
