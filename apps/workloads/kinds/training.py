"""Training: one program on several nodes at once, all or nothing, as a JobSet. Pure.

Source: JobSet v0.12 (jobset.x-k8s.io/v1alpha2). Its one replicated job `node` is an Indexed Job whose index
is the node's rank. JobSet gives each pod the host name `<set>-node-0-<rank>` under a headless Service named
like the set. Not yet run in a container.
"""

from dataclasses import dataclass, replace
from typing import Annotated, NotRequired, TypedDict

from apps.ranges import NODES, PROCESSES, RETRIES
from apps.workloads.manifests import pods
from apps.workloads.manifests.pods import Manifest
from apps.workloads.purpose_specs import Purpose
from apps.workloads.registry import COMMAND, Definition, Ends, FormField, Takes, is_reserved
from apps.workloads.spec.field_reader import Reader, bounded
from apps.workloads.specs import PlacementSpec, Volume, WorkloadSpec

CONTROLLER = "JobSet"
ROLE = "node"
PORT = 29_500
"""Where the processes meet: torchrun's own default."""
CHECKPOINTS = Volume(name="checkpoints", size_bytes=0, mount_path="/checkpoints")
"""Where a program finds what it had done, after a restart as after a stop."""
OWN = ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
TORCHRUN = "PET_"
"""What torchrun puts before the variables that stand for its options."""
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
LONGEST_NAME = 46
"""Of a JobSet: a pod of it has `-node-0-255-` and five letters more, and 63 in all."""
TAIL = 11
"""Of an object's name: what makes it the only one."""


@dataclass(frozen=True)
class TrainingBlock:
    """What only training has. `restarts`: how often all of it begins again after a node's program failed."""

    nodes: int = 2
    processes_per_node: int = 1
    restarts: int = 0

    @property
    def pods(self) -> int:
        """One on each node."""
        return self.nodes


class TrainingWish(TypedDict):
    """What only training has."""

    nodes: NotRequired[Annotated[int | None, bounded(NODES), "2 unless named; they start together."]]
    processes_per_node: NotRequired[
        Annotated[int | None, bounded(PROCESSES), "As many as the devices of a node unless named."]
    ]
    restarts: NotRequired[
        Annotated[int | None, bounded(RETRIES), "How often all of it begins again after a failure; 0."]
    ]


class TrainingBlockBody(TypedDict):
    """What only training has."""

    nodes: Annotated[int, "How many pods run at once, all or none; each holds `count` devices."]
    processes_per_node: Annotated[int, "How many processes each pod is told to start."]
    restarts: Annotated[int, "How often all of it begins again after a failure. A lost node does not count."]


def block_of(read: Reader) -> TrainingBlock:
    """The block, or problems at its fields."""
    read.only({"nodes", "processes_per_node", "restarts"})
    return TrainingBlock(
        nodes=read.whole("nodes", default=2, within=NODES),
        processes_per_node=read.whole("processes_per_node", default=0, within=PROCESSES),
        restarts=read.whole("restarts", default=0, within=RETRIES),
    )


def complete(block: TrainingBlock, spec: WorkloadSpec) -> TrainingBlock:
    """A process for each device, or one on the CPU, unless it was said otherwise."""
    return replace(block, processes_per_node=block.processes_per_node or spec.count or 1)


def body_of(block: TrainingBlock) -> TrainingBlockBody:
    """The JSON of the block, complete."""
    return {
        "nodes": block.nodes,
        "processes_per_node": block.processes_per_node,
        "restarts": block.restarts,
    }


def refuse(read: Reader, _block: TrainingBlock, spec: WorkloadSpec) -> None:
    """RULE: a request sets none of the variables by which the nodes find each other."""
    variables = read.part("env")
    for name in spec.env:
        if is_reserved(name, (*OWN, TORCHRUN)):
            variables.refuse(name, f"In training only the platform sets {name}.", code="reserved_name")


def build(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """RULES: `spec.suspend` is never applied (Kueue owns it). A node whose program fails ends its Job, and
    the set begins again as a whole, `restarts` times; a node that is lost, drained or taken back restarts it
    too and counts for nothing. A JobSet never changes: its time limit is kept by the portal.
    """
    block = spec.block
    if not isinstance(block, TrainingBlock):
        raise TypeError("it is no training")
    name = name_of(place.object_name)
    job_set = pods.manifest("jobset.x-k8s.io/v1alpha2", CONTROLLER, place)
    job_set["metadata"]["name"] = name
    container = pods.container(spec, place, home=pods.HOME)
    known = {variable["name"] for variable in container["env"]}
    container["env"] += [each for each in _variables(block, spec, name) if each["name"] not in known]
    container["ports"] = [{"name": "rendezvous", "containerPort": PORT, "protocol": "TCP"}]
    template = pods.template(spec, place, container, restart="Never")
    job_set["spec"] = {
        "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "failurePolicy": {
            "maxRestarts": block.restarts,
            "rules": [
                {
                    "name": "lost-node",
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }
            ],
        },
        "replicatedJobs": [{"name": ROLE, "replicas": 1, "template": {"spec": _job(block, template)}}],
    }
    return [pods.queued(job_set, spec, place, template=job_set["spec"])]


def name_of(object_name: str) -> str:
    """The set's name, short enough for its pods' and ending in what makes it the only one."""
    head, tail = object_name[:-TAIL], object_name[-TAIL:]
    return f"{head[: LONGEST_NAME - TAIL].rstrip('-')}{tail}"


def _job(block: TrainingBlock, template: Manifest) -> Manifest:
    lost = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "completionMode": "Indexed",
        "completions": block.nodes,
        "parallelism": block.nodes,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [lost]},
        "template": template,
    }


def _variables(block: TrainingBlock, spec: WorkloadSpec, name: str) -> list[Manifest]:
    """What tells a process where it stands: in the words of torch.distributed, and as torchrun's own options,
    so that `torchrun train.py` needs no argument. RANK is the node's; torchrun gives each process its own.
    """
    fixed: dict[str, object] = {
        "NNODES": block.nodes,
        "NPROC_PER_NODE": block.processes_per_node,
        "MASTER_ADDR": f"{name}-{ROLE}-0-0.{name}",
        "MASTER_PORT": PORT,
    }
    world = block.nodes * block.processes_per_node
    told: dict[str, object] = {
        **fixed,
        **{f"{TORCHRUN}{key}": value for key, value in fixed.items()},
        "WORLD_SIZE": world,
    }
    kept = next((v.mount_path for v in spec.volumes if v.name == CHECKPOINTS.name), "")
    if kept:
        told["CHECKPOINT_DIR"] = kept
    ranks = ("NODE_RANK", f"{TORCHRUN}NODE_RANK", "RANK")
    return [
        *({"name": key, "value": str(value)} for key, value in sorted(told.items())),
        *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}} for key in ranks),
    ]


def all_run(ready: int, wanted: int) -> bool:
    """It trains once every node does."""
    return ready >= wanted


KIND = Definition(
    order=3,
    icon="layers",
    about="One program on several nodes at once. All of them start together or none does.",
    controller=CONTROLLER,
    wish=TrainingWish,
    body=TrainingBlockBody,
    parse=block_of,
    complete=complete,
    as_json=body_of,
    build=build,
    refuse=refuse,
    reserves=(*OWN, TORCHRUN),
    runs=all_run,
    ends=Ends(done="Completed", failed="Failed"),
    shares_volumes=True,
    time_is_ours=True,
    needs="jobset",
    purpose=Purpose.TRAINING,
    several="nodes",
    at_once=NODES,
    fields=(
        COMMAND,
        FormField("nodes", "training/nodes", "Nodes", "They start together.", "2", Takes.NUMBER),
        FormField(
            "processes", "training/processes_per_node", "Processes per node", "Empty: one per device.",
            takes=Takes.NUMBER, usual=lambda document: document["count"] or 1,
        ),
        FormField(
            "restarts", "training/restarts", "Restarts", "Of all nodes, after a failure.", "0", Takes.NUMBER
        ),
        FormField(
            "checkpoints", "volumes", "Checkpoints", "A disk for all nodes. Empty: none.", takes=Takes.DISK,
            volume=CHECKPOINTS,
        ),
    ),
)  # fmt: skip
