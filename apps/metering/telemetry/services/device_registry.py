"""Which row of `Device` a label set means: known, learned, moved, or cut anew."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from apps.cluster.models import Cluster, MirrorObject
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.models import Allocation, Device, HardwareFact
from apps.metering.specs import Origin
from apps.metering.telemetry.rules.sources.reading import DeviceLabels, micros, moment
from apps.metering.telemetry.selectors.node_names import NodeNames
from apps.metering.telemetry.services.sample_store import touch_devices

_STALE = 300 * 1_000_000
_MINUTE = 60 * 1_000_000
Key = tuple[str, int, int, str]
_FIELDS = (
    "pk", "uuid", "gpu_instance", "compute_instance", "profile", "instance_uuid", "node", "model",
    "first_seen_at", "last_seen_at",
)  # fmt: skip


class _Known(NamedTuple):
    """A row as it was when the batch began."""

    pk: int
    uuid: str
    gpu_instance: int
    compute_instance: int
    profile: str
    instance_uuid: str
    node: str
    model: str
    first_seen_at: datetime
    last_seen_at: datetime

    @property
    def key(self) -> Key:
        return self[1:5]


class DeviceBook:
    """The devices of one cluster during one batch.

    `ids` maps the label sets met so far to the id of their device; `place` finds or makes what is missing.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.ids: dict[DeviceLabels, int] = {}
        self._cluster = cluster
        self._rows: dict[int, _Known] = {}
        self._by_key: dict[Key, list[int]] = {}
        self._labels: dict[int, DeviceLabels] = {}
        self._last: dict[int, int] = {}
        self._learned: list[_Known] = []
        self.node_names = NodeNames(cluster)
        for values in Device.objects.filter(cluster=cluster).order_by("pk").values_list(*_FIELDS):
            self._add(_Known._make(values))

    def place(self, labels: DeviceLabels, ts: int) -> int:
        """The id of the device that these labels mean; a new row where it was never seen.

        RULE: same GPU, instances and profile is the same device, unless the exporter tells another MIG UUID:
        then it was cut anew. A device whose MIG UUID is not known yet takes the first one that it is told, or
        that its pod's claim has.
        """
        told = labels.instance_uuid or self._held_by(labels, ts)
        node = self.node_names.of(labels)
        placed = labels if node == labels.node else labels._replace(node=node)
        row = self._chosen(labels, told) or self._made(placed, told, ts)
        if told and not row.instance_uuid:
            self._learned.append(row)
            Device.objects.filter(pk=row.pk).update(instance_uuid=told)
            self._rows[row.pk] = row._replace(instance_uuid=told)
        self.ids[labels] = row.pk
        self._labels[row.pk] = placed
        return row.pk

    def learned(self, span: int) -> set[tuple[str, int]]:
        """(GPU, number of the span of so many seconds) of all that was ever seen of the devices whose MIG
        UUID is known only now: whose time it was must be judged again.
        """
        return {
            (row.uuid, number)
            for row in self._learned
            for number in range(
                int(row.first_seen_at.timestamp()) // span - 1, int(row.last_seen_at.timestamp()) // span + 2
            )
        }

    def seen(self, pk: int, ts: int) -> None:
        """Note the youngest sample of a device in this batch."""
        self._last[pk] = ts

    def save(self) -> None:
        """Write where devices are now and, once in five minutes, when they were last seen (to the minute):
        that is for people, samples know it exactly.
        """
        seen: dict[int, list[int]] = {}
        for pk, ts in self._last.items():
            row, labels = self._rows[pk], self._labels[pk]
            since = ts - micros(row.last_seen_at)
            place = labels.node or row.node, labels.model or row.model
            if since >= 0 and place != (row.node, row.model):
                Device.objects.filter(pk=pk).update(node=place[0], model=place[1], last_seen_at=moment(ts))
            elif since >= _STALE:
                seen.setdefault(ts - ts % _MINUTE, []).append(pk)
        for minute, pks in seen.items():
            touch_devices(pks, moment(minute))

    def _add(self, row: _Known) -> None:
        self._rows[row.pk] = row
        self._by_key.setdefault(row.key, []).append(row.pk)

    def _chosen(self, labels: DeviceLabels, told: str) -> _Known | None:
        known = self._known(labels)
        if not told:
            return max(known, key=lambda row: (row.last_seen_at, row.pk), default=None)
        exact = (row for row in known if row.instance_uuid == told)
        unknown = (row for row in known if not row.instance_uuid)
        return next(exact, None) or next(unknown, None)

    def _known(self, labels: DeviceLabels) -> list[_Known]:
        return [self._rows[pk] for pk in self._by_key.get(labels[:4], ())]

    def _made(self, labels: DeviceLabels, instance_uuid: str, ts: int) -> _Known:
        row = Device.objects.create(
            cluster=self._cluster,
            uuid=labels.uuid,
            gpu_instance=labels.gpu_instance,
            compute_instance=labels.compute_instance,
            profile=labels.profile,
            instance_uuid=instance_uuid,
            node=labels.node,
            model=labels.model,
            first_seen_at=moment(ts),
            last_seen_at=moment(ts),
        )
        known = _Known._make(getattr(row, name) for name in _FIELDS)
        self._add(known)
        return known

    def _held_by(self, labels: DeviceLabels, ts: int) -> str:
        """The MIG UUID of the only device that the pod on this instance holds, by its claim."""
        if labels.gpu_instance < 0 or len(labels.pods) != 1:
            return ""
        if any(row.instance_uuid for row in self._known(labels)):
            return ""
        ((namespace, name),) = labels.pods
        mirrored = MirrorObject.objects.filter(cluster=self._cluster)
        pods = mirrored.filter(kind="Pod", namespace=namespace, name=name).values_list("uid", flat=True)
        owned = mirrored.filter(kind="ResourceClaim", controller_uid__in=list(pods))
        claims = list(owned.values_list("uid", flat=True))
        held = Allocation.objects.filter(
            origin=Origin.ALLOTMENT,
            claim_uid__in=claims,
            device_uuid__startswith="MIG-",
            started_at__lte=moment(ts),
        )
        found = {*held.values_list("device_uuid", flat=True), *self._by_kubectl(claims, labels.uuid, ts)}
        return found.pop() if len(found) == 1 else ""

    def _by_kubectl(self, claims: list[str], gpu: str, ts: int) -> Iterator[str]:
        """The MIG UUIDs that the facts of a GPU tell of these claims, if they are no workload's."""
        told = HardwareFact.objects.filter(
            cluster=self._cluster, gpu=gpu, kind=ChangeKind.CLAIMS, at__lte=moment(ts)
        )
        newest = told.order_by("at", "pk").last() if claims else None
        known = newest.value["claims"] if newest else {}
        for uid in claims:
            uuids = known.get(uid, {}).get("uuids", {})
            yield from (uuid for uuid in uuids.values() if uuid.startswith("MIG-"))
