"""Which node an exporter's label `Hostname` means: dcgm-exporter writes its pod's name there where nobody
gives it NODE_NAME, and a fully qualified name where the machine has one.
"""

from collections import defaultdict
from collections.abc import Iterator

from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.metering.specs import TroubleKind
from apps.metering.telemetry.rules.sources.reading import DeviceLabels, Trouble

MOST_NAMED = 3
_STRANGER = (
    "{hosts} no node of {cluster}. {joined} Give the exporter's container the variable NODE_NAME from"
    " spec.nodeName (fieldRef), and let no relabelling change the label Hostname."
)


class NodeNames:
    """The nodes of a cluster by their names and by their GPUs, and which names met were none.

    RULE: a name is a node's, or a node's first label is its first; else the GPU's UUID in the published
    ResourceSlices tells the node. Of a cluster whose nodes are not known yet every name is taken as it is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        there, gone = inventory.node_names(cluster)
        self._names = there | gone if there else frozenset[str]()
        self._short: dict[str, set[str]] = defaultdict(set)
        for name in self._names:
            self._short[name.partition(".")[0]].add(name)
        self._by_uuid: dict[str, str] | None = None
        self._strangers: dict[str, dict[str, bool]] = {}

    def of(self, labels: DeviceLabels) -> str:
        """The node's name; the label as it is where nothing tells a node."""
        host = labels.node
        if not self._names or host in self._names:
            return host
        alike = self._short.get(host.lower().partition(".")[0], set())
        if len(alike) == 1:
            return next(iter(alike))
        home = self._published(labels)
        if host or not home:
            self._strangers.setdefault(host, {})[labels.uuid] = bool(home)
        return home or host

    def troubles(self) -> Iterator[Trouble]:
        """One that names what matched no node."""
        if not self._strangers:
            return
        hosts = sorted(self._strangers)
        named = ", ".join(f'"{host}"' for host in hosts[:MOST_NAMED])
        more = f" and {len(hosts) - MOST_NAMED} more" if len(hosts) > MOST_NAMED else ""
        gpus = {uuid: is_joined for each in self._strangers.values() for uuid, is_joined in each.items()}
        known, unknown = sum(gpus.values()), len(gpus) - sum(gpus.values())
        said = [f"{known} of their GPUs are shown where their UUID says they are." if known else ""]
        said += [f"{unknown} of their GPUs are on no node's page." if unknown else ""]
        words = _STRANGER.format(
            hosts=f"Hostname {named}{more} {'match' if len(hosts) > 1 else 'matches'}",
            cluster=self._cluster.slug,
            joined=" ".join(filter(None, said)),
        )
        yield Trouble(TroubleKind.UNKNOWN_HOST, "", words)

    def _published(self, labels: DeviceLabels) -> str:
        if self._by_uuid is None:
            devices = inventory.devices(self._cluster)
            self._by_uuid = {each.parent_uuid or each.uuid: each.node for each in devices}
        return self._by_uuid.get(labels.uuid, "")
