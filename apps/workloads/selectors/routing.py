"""On which way browsers reach what they open: past the door by a Gateway, or all through the door."""

from django.conf import settings

from apps.cluster.mirror.selectors import inventory
from apps.workloads import registry
from apps.workloads.gateway_specs import GatewayPlace
from apps.workloads.models import Workload


def gateway_of(row: Workload) -> GatewayPlace | None:
    """The Gateway that leads to it; None: the door passes every byte.

    RULE: of the cluster that the door runs in, and only where the product can write routes that ask the door.
    """
    config = settings.CONFIG
    is_beside = bool(config.gateway) and row.cluster.slug == config.door_cluster
    if not is_beside or config.apps is None or not registry.of(row.kind).opens:
        return None
    if not inventory.capability(row.cluster, "routes").available:
        return None
    namespace, _, name = config.gateway.partition("/")
    return GatewayPlace(
        namespace=namespace,
        name=name,
        host=config.apps.host(row.pk).partition(":")[0],
        door=config.door_service,
        door_port=config.door_port,
        check_port=config.door_check_port,
    )
