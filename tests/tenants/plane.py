"""What suites on the real plane need of a tenant: its cluster's row, its mirror, and patience."""

from collections.abc import Iterator
from contextlib import contextmanager

from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services.mirror_table import bury_absent, record_seen
from apps.cluster.models import Cluster
from apps.cluster.objects.kinds import WATCHED
from tests.controlplane import binaries
from tests.controlplane.plane import ControlPlane
from tests.factories import NOW


def mirror(gateway: Gateway, cluster: Cluster) -> None:
    """What the watcher does: every watched kind as it is now."""
    for kind in WATCHED:
        items, version = gateway.list(kind)
        record_seen(cluster, [Sighting(kind, item) for item in items], now=NOW)
        bury_absent(cluster, kind, items, resource_version=int(version), now=NOW)


@contextmanager
def flux_schemas(plane: ControlPlane) -> Iterator[None]:
    """The definitions of Flux on the plane, taken away again at the end; no controller of Flux runs."""
    built = binaries.ensure(binaries.FLUX_SCHEMAS)
    folders = [str(built.asset(name)) for name in ("source-crds", "helm-crds")]
    for folder in folders:
        plane.kubectl("apply", "--server-side", "-f", folder)
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    yield
    for folder in folders:
        plane.kubectl("delete", "-f", folder)
