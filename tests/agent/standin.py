"""The functions of the stand-in library, by their names in NVML, and how to install it."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from tests.agent.cards import (
    MIB,
    MIG_BASE,
    Card,
    Library,
    Part,
    Refused,
    function,
    number,
    of_card,
    point,
    put,
    write,
)


@function("nvmlInitWithFlags")
def init_with_flags(library: Library, _flags: int) -> None:
    library.started += 1


@function("nvmlShutdown")
def shutdown(library: Library) -> None:
    library.started -= 1
    library.samples.clear()


@function("nvmlSystemGetDriverVersion")
def system_get_driver_version(_library: Library, buffer: Any, _size: Any) -> None:
    write(buffer, "570.86.15")


@function("nvmlDeviceGetCount_v2")
def device_get_count_v2(library: Library, count: Any) -> None:
    put(count, len(library.cards))


@function("nvmlDeviceGetHandleByIndex_v2")
def device_get_handle_by_index_v2(library: Library, index: Any, handle: Any) -> int:
    card = library.cards[index.value]
    point(handle, index.value + 1)
    code: int = card.refuse.get("*", 0)
    return code


@of_card("nvmlDeviceGetMinorNumber")
def device_get_minor_number(_library: Library, card: Card, _part: Part | None, minor: Any) -> None:
    put(minor, card.minor)


@of_card("nvmlDeviceGetUUID")
def device_get_uuid(_library: Library, card: Card, part: Part | None, buffer: Any, _size: Any) -> None:
    write(buffer, part.uuid if part else card.uuid)


@of_card("nvmlDeviceGetName")
def device_get_name(_library: Library, card: Card, part: Part | None, buffer: Any, _size: Any) -> None:
    write(buffer, f"{card.name} MIG {part.profile}" if part else card.name)


@of_card("nvmlDeviceGetPciInfo_v3")
def device_get_pci_info_v3(_library: Library, card: Card, _part: Part | None, info: Any) -> None:
    info._obj.busId = f"00000000:{0x18 + card.minor:02X}:00.0".encode()


@of_card("nvmlDeviceGetMigMode")
def device_get_mig_mode(_library: Library, card: Card, _part: Part | None, now: Any, pending: Any) -> int:
    put(now, card.parts is not None)
    put(pending, card.parts is not None)
    return 0 if "H" in card.name or "A100" in card.name else pynvml.NVML_ERROR_NOT_SUPPORTED


@of_card("nvmlDeviceGetMaxMigDeviceCount")
def device_get_max_mig_device_count(_library: Library, _card: Card, _part: Part | None, most: Any) -> None:
    put(most, 7)


@of_card("nvmlDeviceGetMigDeviceHandleByIndex")
def device_get_mig_device_handle_by_index(
    library: Library, card: Card, _part: Part | None, index: Any, handle: Any
) -> int:
    parts = card.parts or []
    if index.value >= len(parts):
        return int(pynvml.NVML_ERROR_NOT_FOUND)
    point(handle, (library.cards.index(card) + 1) * MIG_BASE + number(parts[index.value]))
    return 0


@of_card("nvmlDeviceGetGpuInstanceId")
def device_get_gpu_instance_id(_library: Library, _card: Card, part: Part, number: Any) -> None:
    put(number, part.gpu_instance)


@of_card("nvmlDeviceGetComputeInstanceId")
def device_get_compute_instance_id(_library: Library, _card: Card, part: Part, number: Any) -> None:
    put(number, part.compute_instance)


@of_card("nvmlDeviceGetGpuInstanceById")
def device_get_gpu_instance_by_id(
    library: Library, card: Card, _part: Part | None, number: int, handle: Any
) -> None:
    point(handle, (library.cards.index(card) + 1) * MIG_BASE + number * 100 + 1)


@function("nvmlGpuInstanceGetInfo")
def gpu_instance_get_info(library: Library, handle: Any, info: Any) -> None:
    _, part = library.find(handle)
    if part is None:
        raise Refused(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    info._obj.profileId, info._obj.placement.start = part.profile_id, part.start


@of_card("nvmlDeviceGetAttributes_v2")
def device_get_attributes_v2(_library: Library, _card: Card, part: Part, found: Any) -> None:
    found._obj.gpuInstanceSliceCount = int(part.profile.partition("g")[0])
    found._obj.memorySizeMB = part.total_mib


@of_card("nvmlDeviceGetMemoryInfo")
def device_get_memory_info(_library: Library, card: Card, part: Part | None, found: Any) -> None:
    owner = part or card
    found._obj.used, found._obj.free = (
        (owner.used_mib + 500) * MIB,
        (owner.total_mib - owner.used_mib - 500) * MIB,
    )


@of_card("nvmlDeviceGetMemoryInfo_v2")
def device_get_memory_info_v2(_library: Library, card: Card, part: Part | None, found: Any) -> None:
    owner = part or card
    found._obj.used, found._obj.reserved = owner.used_mib * MIB, 500 * MIB
    found._obj.free = (owner.total_mib - owner.used_mib - 500) * MIB


@of_card("nvmlDeviceGetComputeRunningProcesses_v3")
def device_get_compute_running_processes_v3(
    _library: Library, card: Card, part: Part | None, count: Any, found: Any
) -> int:
    processes = (part or card).processes
    room = count._obj.value
    put(count, len(processes))
    if found is None or room < len(processes):
        return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE) if processes else 0
    for at, (pid, mib) in enumerate(processes):
        found[at].pid, found[at].usedGpuMemory = pid, mib * MIB
    return 0


@of_card("nvmlDeviceGetFieldValues")
def device_get_field_values(_library: Library, card: Card, _part: Part | None, _n: Any, values: Any) -> None:
    values._obj[0].nvmlReturn = card.refuse.get("memory temperature", 0)
    values._obj[0].value.uiVal = 48


def _number_of(name: str, value: Any) -> None:
    """A function that answers one number; more arguments before it are passed over."""

    def answer(_library: Library, card: Card, _part: Part | None, *arguments: Any) -> None:
        put(arguments[-1], value(card))

    of_card(name)(answer)


for _name, _value in (
    ("nvmlDeviceGetClockInfo", lambda _: 1980),
    ("nvmlDeviceGetTemperature", lambda _: 41),
    ("nvmlDeviceGetPowerUsage", lambda card: round(card.watts * 1000)),
    ("nvmlDeviceGetTotalEnergyConsumption", lambda card: card.energy_mj),
    ("nvmlDeviceGetPcieReplayCounter", lambda _: 2),
    ("nvmlDeviceGetTotalEccErrors", lambda _: 0),
    ("nvmlDeviceGetCurrentClocksEventReasons", lambda _: pynvml.nvmlClocksEventReasonGpuIdle),
    ("nvmlDeviceGetCurrentClocksThrottleReasons", lambda _: pynvml.nvmlClocksThrottleReasonSwPowerCap),
):
    _number_of(_name, _value)


@of_card("nvmlDeviceGetEncoderUtilization")
def device_get_encoder_utilization(
    _library: Library, _card: Card, _part: Part | None, used: Any, _span: Any
) -> None:
    put(used, 3)


@of_card("nvmlDeviceGetDecoderUtilization")
def device_get_decoder_utilization(
    _library: Library, _card: Card, _part: Part | None, used: Any, _span: Any
) -> None:
    put(used, 4)


@of_card("nvmlDeviceGetUtilizationRates")
def device_get_utilization_rates(_library: Library, card: Card, _part: Part | None, found: Any) -> None:
    if card.parts is not None:
        raise Refused(pynvml.NVML_ERROR_NOT_SUPPORTED)
    found._obj.gpu, found._obj.memory = card.smi, 1


@of_card("nvmlDeviceGetRemappedRows")
def device_get_remapped_rows(_library: Library, _card: Card, _part: Part | None, *found: Any) -> None:
    for reference, value in zip(found, (1, 0, 0, 0), strict=True):
        put(reference, value)


@function("nvmlEventSetCreate")
def event_set_create(_library: Library, handle: Any) -> None:
    point(handle, 77)


@of_card("nvmlDeviceRegisterEvents")
def device_register_events(
    _library: Library, _card: Card, _part: Part | None, _kinds: Any, _set: Any
) -> None:
    return None


@function("nvmlEventSetWait_v2")
def event_set_wait_v2(library: Library, _set: Any, data: Any, _timeout: Any) -> int:
    if not library.xids:
        return int(pynvml.NVML_ERROR_TIMEOUT)
    card, code, instance = library.xids.pop(0)
    event = data._obj
    event.device = type(event.device).from_buffer(
        bytearray((library.cards.index(card) + 1).to_bytes(8, "little"))
    )
    event.eventType, event.eventData = pynvml.nvmlEventTypeXidCriticalError, code
    event.gpuInstanceId = 0xFFFFFFFF if instance is None else instance
    return 0


@of_card("nvmlGpmQueryDeviceSupport")
def gpm_query_device_support(_library: Library, card: Card, _part: Part | None, found: Any) -> None:
    found._obj.isSupportedDevice = card.gpm


@function("nvmlGpmSampleAlloc")
def gpm_sample_alloc(library: Library, sample: Any) -> None:
    number = max(library.samples, default=0) + 1
    library.samples[number] = None
    point(sample, number)


@function("nvmlGpmSampleFree")
def gpm_sample_free(library: Library, sample: Any) -> None:
    del library.samples[_sample(sample)]


@of_card("nvmlGpmSampleGet")
def gpm_sample_get(library: Library, card: Card, _part: Part | None, sample: Any) -> None:
    if card.parts is not None:
        raise Refused(pynvml.NVML_ERROR_NOT_SUPPORTED)
    library.samples[_sample(sample)] = (library.now, card, library.sums([card.uuid]))


@of_card("nvmlGpmMigSampleGet")
def gpm_mig_sample_get(library: Library, card: Card, _part: Part | None, instance: int, sample: Any) -> None:
    owners = [part.uuid for part in card.parts or [] if part.gpu_instance == instance]
    if not owners:
        raise Refused(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    library.samples[_sample(sample)] = (library.now, card, library.sums(owners))


@function("nvmlGpmMetricsGet")
def gpm_metrics_get(library: Library, query: Any) -> None:
    asked = query._obj
    first, second = library.samples[_sample(asked.sample1)], library.samples[_sample(asked.sample2)]
    if first is None or second is None:
        raise Refused(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    seconds = second[0] - first[0]
    for at in range(asked.numMetrics):
        entry = asked.metrics[at]
        entry.nvmlReturn = second[1].refuse_metrics.get(entry.metricId, 0)
        entry.value = _total(second[2], entry.metricId) - _total(first[2], entry.metricId)
        entry.value = entry.value / seconds if seconds else float("nan")


def _total(sums: dict[tuple[str, int], float], metric: int) -> float:
    return sum(value for (_, found), value in sums.items() if found == metric)


def _sample(sample: Any) -> int:
    return ctypes.cast(sample, ctypes.c_void_p).value or 0


@contextmanager
def installed(library: Library) -> Iterator[Library]:
    """Put the stand-in where the binding keeps the driver's library."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
