"""What is asked for, as REST shows it. Pure."""

from typing import Annotated, TypedDict

from apps.quotas.specs import Priority
from apps.workloads.specs import Ide, IdleAction, Kind


class WorkloadVolumeBody(TypedDict):
    """A volume claim that outlives every stop."""

    name: Annotated[str, "Up to 20 of a-z, 0-9 and -, starting with a letter."]
    size: Annotated[str, "A Kubernetes quantity, such as 10Gi."]
    mount_path: Annotated[str, "An absolute path, such as /data."]


class NotebookBlockBody(TypedDict):
    """What only a notebook has."""

    ide: Ide


class JobBlockBody(TypedDict):
    """What only a job has, in the words of batch/v1 Job."""

    completions: int
    parallelism: int
    backoff_limit: int


class WorkloadIdlePolicyBody(TypedDict):
    """A workload's own idle policy."""

    action: IdleAction
    for_seconds: Annotated[int | None, "Null: as long as its team's policy says."]


class WorkloadSpecBody(TypedDict):
    """What is asked for, complete. It may be sent back as it is."""

    kind: Kind
    offer: str
    offers: Annotated[None, "Not in this version."]
    count: Annotated[int, "Devices per pod."]
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
    notebook: NotebookBlockBody | None
    job: JobBlockBody | None
