"""How many devices of each offer a cluster has, has given out, and has free. Reads the mirror only."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db.models import Sum

from apps.cluster import request_cache
from apps.cluster.mirror.rules.hardware import DeviceKey, DeviceView, NodeView
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.cluster.objects.names import LABEL_TENANT
from apps.cluster.objects.quantities import whole_number
from apps.cluster.specs import Body
from apps.quotas.catalogue.rules import cores, room
from apps.quotas.catalogue.selectors import offers
from apps.quotas.kueue import observation
from apps.quotas.models import Grant, Offer, Quota
from apps.quotas.specs import Mechanism


@dataclass(frozen=True)
class Supply:
    """An offer's devices in the whole cluster: how many there are, are given out, and are free on nodes that
    work. `most` of these are on one node; None: not known.
    """

    capacity: int
    allocated: int
    free: int
    most: int | None = None

    @property
    def one_node(self) -> str:
        """How many of what is free one pod could have, in words; empty: all of them."""
        return room.one_node(self.free, self.most)


NOTHING = Supply(0, 0, 0)


def supply(cluster: Cluster) -> dict[UUID, Supply]:
    """Every offer of the cluster with its devices, from the mirrored ResourceSlices and ResourceClaims.

    A device counts for an offer by model, MIG profile and the flavor's node labels; it is free as `room_of`
    says. Shares of a device plugin are counted
    on the nodes: what is allocatable, less what their pods ask for; cores likewise, with their memory.
    """
    return request_cache.memo(("supply", cluster.pk), lambda: _supply(cluster))


@request_cache.scope()
def _supply(cluster: Cluster) -> dict[UUID, Supply]:
    nodes, held = inventory.nodes(cluster), _held(cluster)
    devices = devices_by_offer(cluster)
    found = {}
    for offer in offers.offers_in(cluster.pk):
        if offer.mechanism == Mechanism.DEVICE_PLUGIN:
            found[offer.pk] = _shares(cluster, offer, [node for node in nodes if carries(node, offer)])
            continue
        there = room_of(offer, cluster)
        if offer.is_cores:
            taken = sum(node.cores - node.free for node in cores_by_node(cluster, offer))
            found[offer.pk] = Supply(there.capacity, taken, there.free, there.most)
            continue
        own = devices[offer.pk]
        taken = sum(1 for device in own if device.key in held)
        found[offer.pk] = Supply(len(own), taken, there.free, there.most)
    return found


def room_of(offer: Offer, cluster: Cluster) -> room.Room:
    """The offer's devices, or cores, in its cluster as they lie now: free is what no claim has and nothing
    that overlaps it, without a taint, on a node that is ready and not cordoned.
    """
    return request_cache.memo(("room", offer.pk), lambda: _room_of(offer, cluster))


def _room_of(offer: Offer, cluster: Cluster) -> room.Room:
    if offer.is_cores:
        return room.placeable_cores(cores_by_node(cluster, offer))
    return room.placeable_devices(
        devices_by_offer(cluster).get(offer.pk, ()),  # none of an offer that is gone
        [device for device in inventory.devices(cluster) if device.model == offer.flavor.model],
        held=_held(cluster),
        working={node.name for node in inventory.nodes(cluster) if node.schedulable},
    )


def _held(cluster: Cluster) -> Collection[DeviceKey]:
    return request_cache.memo(("held", cluster.pk), lambda: inventory.held_devices(cluster).keys())


def places_free(offer: Offer, cluster: Cluster) -> tuple[int, ...]:
    """What of an offer each node has free, most first. RULE: of a device plugin, which tells no places, each
    share lies alone: nothing is promised of several together.
    """
    if offer.mechanism == Mechanism.DEVICE_PLUGIN:
        return (1,) * supply(cluster).get(offer.pk, NOTHING).free
    return room_of(offer, cluster).places


def devices_by_offer(cluster: Cluster) -> dict[UUID, list[DeviceView]]:
    """The devices of every offer of the cluster that are handed out one by one; none for shares of a device
    plugin. Inside a request sorted once.
    """
    return request_cache.memo(("devices by offer", cluster.pk), lambda: _devices_by_offer(cluster))


def _devices_by_offer(cluster: Cluster) -> dict[UUID, list[DeviceView]]:
    alike: dict[tuple[str, str], list[DeviceView]] = {}
    for device in inventory.devices(cluster):
        alike.setdefault((device.model, device.profile), []).append(device)
    return {
        offer.pk: [d for d in alike.get((offer.flavor.model, offer.profile), ()) if is_of(d, offer)]
        for offer in offers.offers_in(cluster.pk)
    }


def capacity_of(offer: Offer) -> int:
    """How many devices of the offer its cluster has, working or not."""
    return supply(offer.cluster).get(offer.pk, NOTHING).capacity


def promised(offer: Offer, *, now: datetime) -> int:
    """How many devices of the offer all tenants together are guaranteed at a moment, grants included."""
    alive = {"offer": offer, "tenant__deleted_at": None}
    quotas = Quota.objects.filter(**alive).aggregate(total=Sum("nominal_quota"))["total"] or 0
    grants = Grant.objects.filter(**alive, starts_at__lte=now, ends_at__gt=now)
    return quotas + (grants.aggregate(total=Sum("count"))["total"] or 0)


def most_promised(offer: Offer, *, since: datetime, until: datetime | None = None) -> int:
    """The most that `promised` comes to at a moment in [since, until); None: ever after. It grows only where
    a grant begins.
    """
    begins = Grant.objects.filter(offer=offer, tenant__deleted_at=None, starts_at__gt=since)
    if until is not None:
        begins = begins.filter(starts_at__lt=until)
    moments = {since, *begins.values_list("starts_at", flat=True)}
    return max(promised(offer, now=moment) for moment in moments)


def is_of(device: DeviceView, offer: Offer) -> bool:
    """Whether a device is one of the offer's: by driver, model, MIG profile and the flavor's node labels.

    A device on one tenant's nodes is none of an offer to everybody.
    """
    same = (device.model, device.profile) == (offer.flavor.model, offer.profile)
    return same and _suits(device.labels, offer)


def carries(node: NodeView, offer: Offer) -> bool:
    """Whether a node's shares are the offer's: by the flavor's node labels and the plugin's name for them."""
    return _suits(node.labels, offer) and offer.resource_name in node.resources


def bare_nodes(cluster: Cluster, offer: Offer) -> list[NodeView]:
    """The nodes without a GPU whose cores the offer sells: by the flavor's node labels and tolerations."""
    _, bare = cores.apart(inventory.devices(cluster), inventory.nodes(cluster))
    flavor = offer.flavor
    return [node for node in bare if cores.sells(node, flavor.node_labels, flavor.tolerations)]


def _suits(labels: Mapping[str, str], offer: Offer) -> bool:
    wanted = offer.flavor.node_labels
    same_tenant = labels.get(LABEL_TENANT, "") == wanted.get(LABEL_TENANT, "")
    return same_tenant and bool(wanted.items() <= labels.items())


def _shares(cluster: Cluster, offer: Offer, nodes: Sequence[NodeView]) -> Supply:
    asked = Counter({node.name: 0 for node in nodes})
    for body in _pods_on(cluster, nodes):
        asked[body["spec"]["nodeName"]] += observation.limit_of(body, offer.resource_name)
    sizes = {node.name: whole_number(node.resources[offer.resource_name]) for node in nodes}
    free = sum(max(0, sizes[node.name] - asked[node.name]) for node in nodes if node.schedulable)
    return Supply(sum(sizes.values()), asked.total(), free)


def _pods_on(cluster: Cluster, nodes: Sequence[NodeView]) -> Iterable[Body]:
    pods = inventory.objects(cluster, "Pod").filter(body__spec__nodeName__in=[node.name for node in nodes])
    return pods.exclude(body__status__phase__in=["Succeeded", "Failed"]).values_list("body", flat=True)


def cores_by_node(cluster: Cluster, offer: Offer) -> list[cores.CoreNode]:
    """RULE: a node has as many cores to sell as it has memory for; so many are free as CPU and memory are
    that no pod asks for, whoever made it. Inside a request read once.
    """
    return request_cache.memo(("cores by node", offer.pk), lambda: _cores_by_node(cluster, offer))


def _cores_by_node(cluster: Cluster, offer: Offer) -> list[cores.CoreNode]:
    nodes = bare_nodes(cluster, offer)
    millis: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for body in _pods_on(cluster, nodes):
        cpu, size = observation.asked_of(body)
        millis[body["spec"]["nodeName"]] += cpu
        memory[body["spec"]["nodeName"]] += size
    found = []
    for node in nodes:
        cpu = max(0, node.cpu_millis - millis[node.name])
        rest = replace(node, cpu_millis=cpu, memory_bytes=max(0, node.memory_bytes - memory[node.name]))
        there, free = (cores.on_node(each, offer.memory_bytes) for each in (node, rest))
        found.append(cores.CoreNode(node.name, there, free, node.schedulable))
    return found
