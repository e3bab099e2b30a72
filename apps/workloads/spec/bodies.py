"""What is asked for, as REST shows it. Pure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

from apps.quotas.specs import Priority
from apps.workloads import registry
from apps.workloads.specs import IdleAction, Kind


class WorkloadVolumeBody(TypedDict):
    """A volume claim that outlives every stop."""

    name: Annotated[str, "Up to 20 of a-z, 0-9 and -, starting with a letter."]
    size: Annotated[str, "A Kubernetes quantity, such as 10Gi."]
    mount_path: Annotated[str, "An absolute path, such as /data."]


class WorkloadIdlePolicyBody(TypedDict):
    """A workload's own idle policy."""

    action: IdleAction
    for_seconds: Annotated[int | None, "Null: as long as its team's policy says."]


class _OfEveryKind(TypedDict):
    kind: Kind
    offer: str
    offers: Annotated[None, "Not in this version."]
    count: Annotated[int, "Devices per pod; 0 on an offer without a GPU."]
    image: str
    command: list[str]
    args: list[str]
    env: dict[str, str]
    env_from_secrets: Annotated[None, "Not in this version."]
    cpu: Annotated[str | None, "A Kubernetes quantity, per pod."]
    memory: Annotated[str | None, "A Kubernetes quantity, per pod."]
    volumes: list[WorkloadVolumeBody]
    priority: Priority
    suspend: bool
    max_wait_seconds: int | None
    max_run_seconds: int | None
    idle_policy: Annotated[WorkloadIdlePolicyBody | None, "Null: its team's."]


def with_blocks(name: str, common: type, block_of: Callable[[Kind], Any]) -> Any:
    """A TypedDict of the members of every kind of work and a member for each kind's block."""
    hints = get_type_hints(common, include_extras=True)
    return TypedDict(name, {**hints, **{str(kind): block_of(kind) for kind in registry.in_order()}})  # type: ignore[operator]


if TYPE_CHECKING:
    WorkloadSpecBody = dict[str, Any]
else:
    WorkloadSpecBody = with_blocks(
        "WorkloadSpecBody", _OfEveryKind, lambda kind: registry.of(kind).body | None
    )
    WorkloadSpecBody.__doc__ = "What is asked for, complete. It may be sent back as it is."
