"""Whose series it is: the exporter's labels as a device. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from apps.metering.telemetry.rules.sources.reading import DeviceLabels

Part = tuple[str, int, int, str]
"""What one series speaks of: GPU, its instances, and the pod as namespace/name or empty."""
_UUID = re.compile("GPU-[0-9A-Za-z-]{1,76}")
_INSTANCE = re.compile("MIG-[0-9A-Za-z-]{1,76}")


@dataclass(frozen=True)
class LabelNames:
    """What the labels are called that a scrape may rename.

    RULE: an exporter says `pod` and `namespace`; Prometheus without honorLabels calls these `exported_...`,
    and its own `pod` is the exporter's. So one of them is configured, and the other never looked at.
    """

    pod: str = "pod"
    namespace: str = "namespace"

    @property
    def container(self) -> str:
        """Renamed as the pod is. An exporter says a GPU once for each container of a pod that holds it."""
        return f"{self.pod.removesuffix('pod')}container"


def part_of(labels: Mapping[str, str], names: LabelNames) -> Part | None:
    """The device and pod of a series; None where the labels name no GPU as NVIDIA does."""
    uuid = labels.get("UUID", "")
    if _UUID.fullmatch(uuid) is None:
        return None
    gpu_instance, compute_instance = _id(labels.get("GPU_I_ID")), _id(labels.get("GPU_C_ID"))
    if gpu_instance is None or compute_instance is None:
        return None
    pod, namespace = labels.get(names.pod, ""), labels.get(names.namespace, "")
    return uuid, gpu_instance, compute_instance, f"{namespace}/{pod}" if pod and namespace else ""


def device_of(part: Part, labels: Mapping[str, str], pods: tuple[tuple[str, str], ...]) -> DeviceLabels:
    """The device of a part, in the lengths that are stored."""
    instance = labels.get("dra_mig_device_uuid") or labels.get("MIG_UUID", "")
    return DeviceLabels(
        uuid=part[0],
        gpu_instance=part[1],
        compute_instance=part[2],
        profile=labels.get("GPU_I_PROFILE", "")[:32],
        instance_uuid=instance if _INSTANCE.fullmatch(instance) else "",
        node=labels.get("Hostname", "")[:253],
        model=labels.get("modelName", "")[:80],
        pods=pods,
    )


def pod_of(part: Part) -> tuple[str, str] | None:
    """(namespace, name) of the pod that holds a part."""
    namespace, _, name = part[3].partition("/")
    return (namespace, name) if name else None


def _id(text: str | None) -> int | None:
    """An instance's number; -1 where the label is absent, None where it is nonsense."""
    if not text:
        return -1
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 3 else None
