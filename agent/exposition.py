"""A snapshot as Prometheus text with DCGM's names and labels; comments say what is missing and why. Pure."""

from collections.abc import Iterable

from agent.fields import FIELDS, PROFILED_FIELDS, Field
from agent.snapshot import Gap, Holder, Row, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PROFILED = tuple(field.name for field in PROFILED_FIELDS)
_HOLDERS = Field("ALLOTMENT_GPU_HOLDER", "gauge", "1 for every container that shares a device with others.")


def exposition(snapshot: Snapshot) -> str:
    """The whole /metrics text.

    A device that several containers share has no pod labels, because SM per pod is unknown: they are listed
    in `ALLOTMENT_GPU_HOLDER` instead.
    """
    lines = [f"# allotment: {line}" for line in gap_lines(snapshot.gaps)]
    labelled = [(row, _labels(snapshot, row)) for row in snapshot.rows]
    for field in FIELDS:
        rows = [(labels, row.values[field.name]) for row, labels in labelled if field.name in row.values]
        if rows:
            lines += _head(field)
            lines += [
                f"{field.name}{{{labels}}} {_number(value, whole=field.whole)}" for labels, value in rows
            ]
    shared = [(row, holder) for row in snapshot.rows if len(row.holders) > 1 for holder in row.holders]
    if shared:
        lines += _head(_HOLDERS)
        lines += [f"{_HOLDERS.name}{{{_holder_line(snapshot, row, holder)}}} 1" for row, holder in shared]
    return "\n".join(lines) + "\n"


def gap_lines(gaps: Iterable[Gap]) -> list[str]:
    """One line for each reason and set of fields, with all the devices it is true of."""
    where: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for gap in gaps:
        names = ("every DCGM_FI_PROF field",) if gap.fields == _PROFILED else gap.fields
        where.setdefault((names, gap.why), []).append(gap.where)
    return [str(Gap(names, ", ".join(filter(None, places)), why)) for (names, why), places in where.items()]


def _head(field: Field) -> list[str]:
    return [f"# HELP {field.name} {field.help}", f"# TYPE {field.name} {field.kind}"]


def _labels(snapshot: Snapshot, row: Row) -> str:
    labels = _device_labels(snapshot, row)
    if len(row.holders) == 1:
        labels.update(_holder_labels(row.holders[0]))
    if row.instance is not None:
        labels["dra_mig_device_uuid"] = row.instance.uuid
        if "dra_claim_name" in labels:
            labels["dra_mig_profile"] = row.instance.profile
    return _joined(labels)


def _device_labels(snapshot: Snapshot, row: Row) -> dict[str, str]:
    labels = {
        "gpu": str(row.gpu.index),
        "UUID": row.gpu.uuid,
        "pci_bus_id": row.gpu.pci_bus_id,
        "device": f"nvidia{row.gpu.minor}",
        "modelName": row.gpu.model,
    }
    if row.instance is not None:
        labels["GPU_I_PROFILE"] = row.instance.profile
        labels["GPU_I_ID"] = str(row.instance.gpu_instance)
        if not row.instance.whole:
            labels["GPU_C_ID"] = str(row.instance.compute_instance)
    return {**labels, "Hostname": snapshot.host, "DCGM_FI_DRIVER_VERSION": snapshot.driver}


def _holder_labels(holder: Holder) -> dict[str, str]:
    labels = {"container": holder.container, "namespace": holder.namespace, "pod": holder.pod}
    if holder.vgpu:
        labels["vgpu"] = holder.vgpu
    if holder.claim:
        labels |= {
            "dra_claim_name": holder.claim,
            "dra_claim_namespace": holder.claim_namespace,
            "dra_driver_name": holder.driver,
            "dra_pool_name": holder.pool,
            "dra_device_name": holder.device,
        }
    return labels


def _holder_line(snapshot: Snapshot, row: Row, holder: Holder) -> str:
    return _joined({**_device_labels(snapshot, row), **_holder_labels(holder)})


def _joined(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _number(value: float, *, whole: bool) -> str:
    return str(round(value)) if whole else f"{value:.6f}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
