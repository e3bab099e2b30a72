"""Memory on devices that nobody holds, and processes of no pod there: a zombie that outlived its holder."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q

from apps.cluster.mirror.rules import hardware
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster, MirrorObject
from apps.metering.detector.memory import held_limit
from apps.metering.models import Allocation, Device, Sample
from apps.metering.specs import TroubleKind
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.metering.telemetry.services import issues

LOOK = timedelta(minutes=10)
FEWEST = 6
"""Samples, over half of the look, before anything is said of a device."""
_WORDS = "{gpu}: {gib:,.1f} GiB in use{processes}, {holder}"
_CURE = (
    "{devices}. Nobody holds these devices on {node}, so whoever gets them finds less memory than was asked"
    " for. nvidia-smi there lists the processes (fuser -v /dev/nvidia* those that it hides): end what belongs"
    " to no pod. Where none is left, reset the GPU once all of it is free (nvidia-smi --gpu-reset -i UUID),"
    " or restart the machine."
)


def watch(cluster: Cluster, *, now: datetime) -> None:
    """Open an issue for each node with memory on free devices; close those of nodes that have none.

    RULE: a device that nobody held at any moment of the last ten minutes, and whose samples, six at least
    over five minutes at least, all have more memory in use than a driver reserves. What a device plugin
    hands out is not told apart, so nothing is said of it.
    """
    told = issues.report(cluster, _troubles(cluster, now), now=now)
    issues.resolve(cluster, [TroubleKind.MEMORY_LEFT], still=told, now=now)


def _troubles(cluster: Cluster, now: datetime) -> Iterator[Trouble]:
    free = _free(cluster, now - LOOK)
    whole = Q(gpu_instance=-1, uuid__in=free)
    devices = Device.objects.filter(whole | Q(instance_uuid__in=free), cluster=cluster).in_bulk()
    by_node: dict[str, list[str]] = {}
    for row in _lately(list(devices), now):
        device = devices[row["device_id"]]
        by_node.setdefault(device.node, []).append(_words(cluster, device, row))
    for node, words in sorted(by_node.items()):
        yield Trouble(TroubleKind.MEMORY_LEFT, node, _CURE.format(devices="; ".join(words), node=node))


def _free(cluster: Cluster, since: datetime) -> set[str]:
    """The UUIDs of the devices that no claim has had since then, nor the GPU that they are a part of, nor a
    part of them.
    """
    claims = MirrorObject.objects.filter(Q(gone_at=None) | Q(gone_at__gt=since), kind="ResourceClaim")
    held = hardware.holders(claims.filter(cluster=cluster).values_list("body", flat=True))
    lately = Allocation.objects.filter(Q(ended_at=None) | Q(ended_at__gt=since), cluster=cluster)
    busy = set(lately.values_list("device_uuid", flat=True))
    free = set()
    for gpu in hardware.gpus(clusters.devices(cluster)):
        taken = [each for each in gpu.devices if each.key in held or each.uuid in busy]
        if all(each.parent_uuid for each in taken):
            rest = (each for each in gpu.devices if each not in taken and (each.parent_uuid or not taken))
            free |= {each.uuid for each in rest if each.uuid}
    return free


def _lately(devices: list[int], now: datetime) -> Iterator[Mapping[str, Any]]:
    """What these devices told lately, of those with memory in use all the time."""
    rows = Sample.objects.filter(
        device__in=devices, ts__gt=now - LOOK, ts__lte=now, memory_used_mib__isnull=False
    )
    found = rows.values("device_id").annotate(
        n=Count("ts"), first=Min("ts"), last=Max("ts"), least=Min("memory_used_mib"),
        total=Max("memory_total_mib"), processes=Max("processes"),
    )  # fmt: skip
    for row in found.order_by("device__node", "device__uuid", "device__gpu_instance"):
        enough = row["n"] >= FEWEST and row["last"] - row["first"] >= LOOK / 2
        if enough and row["least"] >= held_limit(row["total"] or float("inf")):
            yield row


def _words(cluster: Cluster, device: Device, row: Mapping[str, Any]) -> str:
    uuid = device.instance_uuid if device.gpu_instance >= 0 else device.uuid
    ended = Allocation.objects.filter(cluster=cluster, device_uuid=uuid).select_related("tenant", "workload")
    last = ended.order_by("-ended_at").first()
    holder = "held by nobody that is known"
    if last is not None:
        who = last.workload.name if last.workload else last.root or "kubectl"
        holder = f"last held by {who} of {last.tenant.name} until {last.ended_at:%Y-%m-%d %H:%M} UTC"
    count = row["processes"]
    processes = f" by {count} process{'es' if count > 1 else ''} of no pod" if count else ""
    part = f" {device.profile} {device.gpu_instance}" if device.gpu_instance >= 0 else ""
    return _WORDS.format(
        gpu=f"{device.uuid}{part}", gib=row["least"] / 1024, processes=processes, holder=holder
    )
