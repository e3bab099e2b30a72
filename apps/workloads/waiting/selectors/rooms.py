"""Where an offer's devices, or cores, lie free now. Reads only."""

from apps.cluster import request_cache
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism
from apps.workloads.waiting.rules import room


def places_free(offer: Offer, cluster: Cluster) -> tuple[int, ...]:
    """What of an offer each node has free, most first. RULE: of a device plugin, which tells no places, each
    share lies alone: nothing is promised of several together.
    """
    if offer.mechanism == Mechanism.DEVICE_PLUGIN:
        return (1,) * stock.supply(cluster).get(offer.pk, stock.Supply(0, 0, 0)).free
    return room_of(offer, cluster).places


def room_of(offer: Offer, cluster: Cluster) -> room.Room:
    """The offer's devices, or cores, in its cluster as they lie now."""
    return request_cache.memo(("room", offer.pk), lambda: _room_of(offer, cluster))


def _room_of(offer: Offer, cluster: Cluster) -> room.Room:
    if offer.is_cores:
        return room.placeable_cores(stock.cores_by_node(cluster, offer))
    devices = clusters.devices(cluster)
    return room.placeable_devices(
        [device for device in devices if stock.is_of(device, offer)],
        [device for device in devices if device.model == offer.flavor.model],
        held=clusters.held_devices(cluster).keys(),
        working={node.name for node in clusters.nodes(cluster) if node.schedulable},
    )
