"""What only shows over some minutes of samples: silence, exporters that repeat themselves, missing fields."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Min

from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster
from apps.metering.detector.gpu_models import board_of, is_contradicted
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.models import Device, HardwareFact, Sample
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.metering.telemetry.services.issues import report, resolve

KINDS = ("gap", "frozen", "stuck-counters", "profiling-off", "sm-occupancy-off", "pipes-off")
LOOK = timedelta(minutes=10)
FEWEST = 6
"""Samples before anything is said of a device."""
_REMEMBERED = timedelta(days=1)
_SWITCH_ON = (
    "The exporter on {node} sends no {fields}: its counters file leaves {them} out (dcgm-exporter ships some"
    " lines commented out), and {without}. Add to the counters file (ConfigMap, key"
    " default-counters.csv), then restart the DaemonSet:\n{lines}"
)
_LINES = {
    "sm": "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.",
    "dram": "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active.",
    "occupancy": "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM.",
    "tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles the tensor (HMMA) pipe is active.",
    "fp64": "DCGM_FI_PROF_PIPE_FP64_ACTIVE, gauge, Ratio of cycles the fp64 pipes are active.",
    "fp32": "DCGM_FI_PROF_PIPE_FP32_ACTIVE, gauge, Ratio of cycles the fp32 pipes are active.",
    "fp16": "DCGM_FI_PROF_PIPE_FP16_ACTIVE, gauge, Ratio of cycles the fp16 pipes are active.",
}
_WITHOUT = {
    "profiling-off": (
        ("sm", "dram"),
        "without SM and DRAM activity nobody knows what the GPUs do (GPU_UTIL does not say)",
    ),
    "pipes-off": (
        ("tensor", "fp64", "fp32", "fp16"),
        "nobody knows what kind of work it is: findings are judged by what is left",
    ),
    "sm-occupancy-off": (("occupancy",), "it is shown as unknown; nothing else needs it"),
}
"""The kind of an issue, what it is for, and what follows; the gravest first."""
_FROZEN = (
    "{count} GPUs on {node} repeat the same values, energy included, for {minutes:.0f} minutes: the exporter"
    " there is frozen, and what it says counts as unknown. Restart it (and nv-hostengine, if it is apart)."
)
_STUCK = (
    "{count} GPUs on {node} draw the watts of load while every profiling counter reads 0 (dcgm-exporter issue"
    " 662): what they do counts as unknown. Restart the exporter there (nv-hostengine too, if apart), and"
    " see whether another profiler holds the counters."
)
_GAP = (
    "Nothing was heard of {count} GPUs on {node} since {since:%Y-%m-%d %H:%M:%S} UTC. Their use is unknown"
    " since then."
)
_NEVER = (
    "Nothing was heard for a day, or ever, of {count} GPUs that the driver on {node} publishes. Their use is"
    " unknown."
)
_LOOK_THERE = (
    "See whether the node is up and the exporter's pod runs there:"
    " kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
)


def watch(cluster: Cluster, *, now: datetime) -> None:
    """Judge the last ten minutes of every device; open and resolve issues, one per node and kind."""
    rows = _lately(cluster, now)
    troubles = [*_gaps(cluster, rows, now), *_per_node(cluster, rows)]
    resolve(cluster, KINDS, still=report(cluster, troubles, now=now), now=now)


def _lately(cluster: Cluster, now: datetime) -> dict[int, Mapping[str, Any]]:
    samples = Sample.objects.filter(ts__gt=now - LOOK, ts__lte=now, device__cluster=cluster)
    found = samples.values("device_id").annotate(
        n=Count("ts"), sm=Count("sm_active"), dram=Count("dram_active"), occupancy=Count("sm_occupancy"),
        tensor=Count("tensor_active"), fp64=Count("fp64_active"), fp32=Count("fp32_active"),
        fp16=Count("fp16_active"),
        memory=Count("memory_used_mib"), low=Min("energy_mj"), high=Max("energy_mj"),
        energies=Count("energy_mj"), first=Min("ts"), last=Max("ts"),
        sm_most=Max("sm_active"), tensor_most=Max("tensor_active"), dram_most=Max("dram_active"),
        smi_least=Min("smi"), power_least=Min("power_mw"),
    )  # fmt: skip
    return {row["device_id"]: row for row in found}


def _gaps(cluster: Cluster, rows: Mapping[int, Mapping[str, Any]], now: datetime) -> Iterable[Trouble]:
    """RULE: a device heard of within a day, silent for three steps or more, unless its node was taken away. A
    name that was never a node's is none that was taken away. And a published GPU that was not heard of for a
    day, or never.
    """
    silent_for = timedelta(seconds=3 * settings.CONFIG.telemetry_step_seconds)
    _, gone = clusters.node_names(cluster)
    lost: dict[str, list[tuple[str, datetime]]] = {}
    heard = set()
    for device in Device.objects.filter(cluster=cluster, last_seen_at__gt=now - _REMEMBERED):
        heard.add(device.uuid)
        last = rows[device.pk]["last"] if device.pk in rows else device.last_seen_at
        if now - last > silent_for and device.node not in gone and not _is_cut_anew(cluster, device):
            lost.setdefault(device.node, []).append((device.uuid, last))
    never = _unheard(cluster, heard, now)
    for node in sorted({*lost, *never}):
        words = []
        if found := lost.get(node):
            gpus, since = {uuid for uuid, _ in found}, min(last for _, last in found)
            words.append(_GAP.format(count=len(gpus), node=node, since=since))
        if count := never.get(node, 0):
            words.append(_NEVER.format(count=count, node=node))
        yield Trouble("gap", node, " ".join([*words, _LOOK_THERE.format(node=node)]))


def _unheard(cluster: Cluster, heard: Collection[str], now: datetime) -> Mapping[str, int]:
    """How many GPUs of each node are published, known for `LOOK`, and not among those heard of."""
    homes = {each.parent_uuid or each.uuid: each.node for each in clusters.devices(cluster)}
    silent = {uuid: node for uuid, node in homes.items() if uuid and node and uuid not in heard}
    if not silent:
        return {}
    present = HardwareFact.objects.filter(cluster=cluster, kind=ChangeKind.PRESENT, at__lt=now - LOOK)
    known = present.filter(gpu__in=list(silent)).values_list("gpu", flat=True).distinct()
    return Counter(silent[uuid] for uuid in known)


def _is_cut_anew(cluster: Cluster, device: Device) -> bool:
    """Whether other instances of the same GPU were heard of later: then this one is no more."""
    later = Device.objects.filter(cluster=cluster, uuid=device.uuid, last_seen_at__gt=device.last_seen_at)
    return later.exclude(pk=device.pk).exists()


def _per_node(cluster: Cluster, rows: Mapping[int, Mapping[str, Any]]) -> Iterable[Trouble]:
    homes = Device.objects.filter(cluster=cluster).in_bulk(list(rows))
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for pk, row in rows.items():
        if row["n"] >= FEWEST:
            by_node.setdefault(homes[pk].node, []).append({**row, "device": homes[pk]})
    for node, found in sorted(by_node.items()):
        yield from _switched_off(node, found)
        yield from _frozen(node, found)
        yield from _stuck(node, found)


def _switched_off(node: str, rows: list[Mapping[str, Any]]) -> Iterable[Trouble]:
    """RULE: memory is told but never the field, on any device of the node: it is not switched on there. One
    issue names all such lines, and is of the gravest kind among them.
    """
    if not any(row["memory"] for row in rows):
        return
    off = [name for name in _LINES if not any(row[name] for row in rows)]
    if not off:
        return
    kind, without = next((kind, why) for kind, (names, why) in _WITHOUT.items() if {*names} & {*off})
    words = _SWITCH_ON.format(
        node=node, fields=" and no ".join(_LINES[name].partition(",")[0] for name in off), without=without,
        them="them" if len(off) > 1 else "it", lines="\n".join(_LINES[name] for name in off),
    )  # fmt: skip
    yield Trouble(kind, node, words)


def _frozen(node: str, rows: list[Mapping[str, Any]]) -> Iterable[Trouble]:
    still = [row for row in rows if row["energies"] >= FEWEST and row["low"] == row["high"]]
    if still:
        minutes = max(row["last"] - row["first"] for row in still).total_seconds() / 60
        gpus = {row["device"].uuid for row in still}
        yield Trouble("frozen", node, _FROZEN.format(count=len(gpus), node=node, minutes=minutes))


def _stuck(node: str, rows: list[Mapping[str, Any]]) -> Iterable[Trouble]:
    """RULE: in every sample of ten minutes, on a whole GPU, as the ledger has it of each."""
    found = [row for row in rows if row["device"].gpu_instance == -1 and _is_stuck(row)]
    if found:
        yield Trouble("stuck-counters", node, _STUCK.format(count=len(found), node=node))


def _is_stuck(row: Mapping[str, Any]) -> bool:
    counters = [row["sm_most"], row["tensor_most"], row["dram_most"]]
    watts = row["power_least"] / 1000 if row["power_least"] else None
    return is_contradicted(board_of(row["device"].model), counters, smi=row["smi_least"], watts=watts)
