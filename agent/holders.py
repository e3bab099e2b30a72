"""Who holds which device: the kubelet's pod-resources answer, read and joined to devices. Pure.

A device plugin names devices by UUID (`<uuid>`, a time-slicing replica `<uuid>::<n>`, HAMi's `<uuid>-<n>`); a
DRA driver by the name in its ResourceSlice: `gpu-<minor>`, `gpu-<minor>-mig-<profile>-<profile id>-<start>`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from agent.snapshot import Gpu, Holder, Instance
from agent.wire import parts

DRIVER = "gpu.nvidia.com"
_WHOLE = re.compile(r"gpu-(\d+)")
_SLICE = re.compile(r"gpu-(\d+)-mig-.+-(\d+)-(\d+)")
_REPLICA = re.compile(r"((?:GPU|MIG)-.+?)(?:::(\d+)|(?<=[0-9a-f]{12})-(\d+))?")

# Field numbers of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
_PODS = 1
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3
_CONTAINER_NAME, _CONTAINER_DEVICES, _CONTAINER_CLAIMS = 1, 2, 5
_DEVICE_IDS = 2
_CLAIM_NAME, _CLAIM_NAMESPACE, _CLAIM_RESOURCES = 2, 3, 4
_RESOURCE_DRIVER, _RESOURCE_POOL, _RESOURCE_DEVICE = 2, 3, 4

# A GPU by its minor number, or an instance by that, its profile and its first slice.
Place = tuple[int, int, int]


@dataclass
class Holdings:
    """Holders by the UUID of what they hold, and by its place where only a DRA driver named it."""

    by_uuid: dict[str, list[Holder]] = field(default_factory=dict)
    by_place: dict[Place, list[Holder]] = field(default_factory=dict)

    def of(self, gpu: Gpu, instance: Instance | None) -> tuple[Holder, ...]:
        """Everybody who holds this device, in the kubelet's order; a container once."""
        if instance is None:
            found = self.by_uuid.get(gpu.uuid, []) + self.by_place.get((gpu.minor, -1, -1), [])
        else:
            found = list(self.by_uuid.get(instance.uuid, []))
            if instance.place is not None and instance.whole:
                found += self.by_place.get((gpu.minor, *instance.place), [])
        return tuple(dict.fromkeys(found))


def holdings(answer: bytes) -> Holdings:
    """The answer to `List`. Raises wire.Malformed; devices that are no GPU of ours are passed over."""
    found = Holdings()
    for number, pod in parts(answer):
        if number == _PODS:
            _read_pod(found, pod)
    return found


def _read_pod(found: Holdings, message: bytes) -> None:
    texts, messages = _split(message, (_POD_NAME, _POD_NAMESPACE), (_POD_CONTAINERS,))
    for container in messages[_POD_CONTAINERS]:
        names, inner = _split(container, (_CONTAINER_NAME,), (_CONTAINER_DEVICES, _CONTAINER_CLAIMS))
        holder = Holder(
            namespace=texts[_POD_NAMESPACE], pod=texts[_POD_NAME], container=names[_CONTAINER_NAME]
        )
        for devices in inner[_CONTAINER_DEVICES]:
            for number, content in parts(devices):
                if number == _DEVICE_IDS:
                    _add_device(found, holder, _text(content))
        for claim in inner[_CONTAINER_CLAIMS]:
            _add_claim(found, holder, claim)


def _add_device(found: Holdings, holder: Holder, name: str) -> None:
    named = _REPLICA.fullmatch(name)
    if named:
        replica = named.group(2) or named.group(3) or ""
        found.by_uuid.setdefault(named.group(1), []).append(replace(holder, vgpu=replica))


def _add_claim(found: Holdings, holder: Holder, message: bytes) -> None:
    texts, messages = _split(message, (_CLAIM_NAME, _CLAIM_NAMESPACE), (_CLAIM_RESOURCES,))
    for resource in messages[_CLAIM_RESOURCES]:
        words, _ = _split(resource, (_RESOURCE_DRIVER, _RESOURCE_POOL, _RESOURCE_DEVICE), ())
        place = _place(words[_RESOURCE_DEVICE])
        if words[_RESOURCE_DRIVER] != DRIVER or place is None:
            continue
        claimed = replace(
            holder,
            claim=texts[_CLAIM_NAME],
            claim_namespace=texts[_CLAIM_NAMESPACE],
            driver=words[_RESOURCE_DRIVER],
            pool=words[_RESOURCE_POOL],
            device=words[_RESOURCE_DEVICE],
        )
        found.by_place.setdefault(place, []).append(claimed)


def _place(device: str) -> Place | None:
    whole = _WHOLE.fullmatch(device)
    if whole:
        return int(whole.group(1)), -1, -1
    sliced = _SLICE.fullmatch(device)
    return (int(sliced.group(1)), int(sliced.group(2)), int(sliced.group(3))) if sliced else None


def _split(
    message: bytes, texts: Iterable[int], messages: Iterable[int]
) -> tuple[dict[int, str], dict[int, list[bytes]]]:
    words = dict.fromkeys(texts, "")
    lists: dict[int, list[bytes]] = {number: [] for number in messages}
    for number, content in parts(message):
        if number in words:
            words[number] = _text(content)
        elif number in lists:
            lists[number].append(content)
    return words, lists


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
