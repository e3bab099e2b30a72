"""A service: a Deployment of replicas that answer HTTP, and the Service that spreads requests. Pure.

Kueue 0.19 queues each pod of a Deployment by itself (its `deployment` integration marks the pod template), so
that a service runs with as many replicas as were let in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

from apps.cluster.objects import names
from apps.quotas.specs import Priority
from apps.ranges import REPLICAS, SERVED_PORT, START_SECONDS
from apps.workloads.manifests import pods
from apps.workloads.manifests.entrances import entrances
from apps.workloads.manifests.pods import Manifest
from apps.workloads.purpose_specs import Purpose
from apps.workloads.registry import COMMAND, Definition, FormField, Takes
from apps.workloads.spec.field_reader import Reader, bounded
from apps.workloads.specs import OpenTo, PlacementSpec, WorkloadSpec
from apps.workloads.status.derivation import is_true

CONTROLLER = "Deployment"
USUAL_PORT = 8000
USUAL_START = 600
"""Seconds: a large model is loaded in some minutes."""
PORT_NAME = "http"
EVERY, TIMEOUT = 5, 3
"""Seconds between two questions, and until an answer counts as none."""
LEAVES, DRAINS = 5, 60
"""Seconds that a pod which goes still takes requests, until nobody sends it any; and that it has in all."""
HEALTH = re.compile(r"/[A-Za-z0-9._~/-]{0,199}")


@dataclass(frozen=True)
class ServiceBlock:
    """What only a service has. Without `health_path` it is well when its port takes connections.

    `start_seconds`: how long a replica may take until it answers for the first time.
    """

    port: int = USUAL_PORT
    replicas: int = 1
    health_path: str = ""
    health_port: int = USUAL_PORT
    start_seconds: int = USUAL_START
    open_to: OpenTo = OpenTo.TEAM

    @property
    def pods(self) -> int:
        """One for each replica."""
        return self.replicas


class ServiceWish(TypedDict):
    """What only a service has."""

    port: NotRequired[Annotated[int | None, bounded(SERVED_PORT), "Where it answers HTTP; 8000."]]
    replicas: NotRequired[Annotated[int | None, bounded(REPLICAS), "1 unless named."]]
    health_path: NotRequired[
        Annotated[str | None, "Answers 200 to 399 while it is well; null: that its port takes connections."]
    ]
    health_port: NotRequired[Annotated[int | None, bounded(SERVED_PORT), "Of health_path; port."]]
    start_seconds: NotRequired[
        Annotated[int | None, bounded(START_SECONDS), "How long a replica may take to start; 600."]
    ]
    open_to: NotRequired[Annotated[OpenTo | None, "team unless named."]]


class ServiceBlockBody(TypedDict):
    """What only a service has."""

    port: int
    replicas: Annotated[int, "How many pods answer; each holds `count` devices."]
    health_path: Annotated[str | None, "Null: it is well when its port takes connections."]
    health_port: int
    start_seconds: Annotated[int, "How long a replica may take until it answers; then it is started again."]
    open_to: Annotated[OpenTo, "Who opens it in the browser; with team, the team's pods reach it too."]


def block_of(read: Reader) -> ServiceBlock:
    """The block, or problems at its fields."""
    read.only({"port", "replicas", "health_path", "health_port", "start_seconds", "open_to"})
    path = read.optional_text("health_path", longest=200)
    if path and not HEALTH.fullmatch(path):
        read.refuse("health_path", "A path such as /health.")
    open_to = read.text("open_to", default=str(OpenTo.TEAM), longest=16)
    if open_to not in set(OpenTo):
        read.refuse("open_to", f"One of {', '.join(OpenTo)}.")
        open_to = OpenTo.TEAM
    port = read.whole("port", default=USUAL_PORT, within=SERVED_PORT)
    return ServiceBlock(
        port=port,
        replicas=read.whole("replicas", default=1, within=REPLICAS),
        health_path=path,
        health_port=read.whole("health_port", default=port, within=SERVED_PORT),
        start_seconds=read.whole("start_seconds", default=USUAL_START, within=START_SECONDS),
        open_to=OpenTo(open_to),
    )


def body_of(block: ServiceBlock) -> ServiceBlockBody:
    """The JSON of the block, complete."""
    return {
        "port": block.port,
        "replicas": block.replicas,
        "health_path": block.health_path or None,
        "health_port": block.health_port,
        "start_seconds": block.start_seconds,
        "open_to": block.open_to,
    }


def is_ready(pod: Mapping[str, Any]) -> bool:
    """It takes requests; one that goes takes them to its end, and counts no more."""
    return is_true(pod, "Ready") and not pod.get("metadata", {}).get("deletionTimestamp")


def build(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """RULE: another image, program or number of replicas is another template of the same Deployment, which
    replaces pod by pod; another offer or other devices are another Deployment.
    """
    block = spec.block
    if not isinstance(block, ServiceBlock):
        raise TypeError("it is no service")
    deployment = pods.manifest("apps/v1", CONTROLLER, place)
    template = pods.template(spec, place, _container(spec, place, block), restart="Always")
    template["metadata"]["labels"] |= {names.LABEL_INGRESS: "proxy"}
    template["spec"]["terminationGracePeriodSeconds"] = DRAINS
    deployment["spec"] = {
        "replicas": block.replicas,
        "selector": {"matchLabels": pods.selector(place)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling(block)},
        "template": template,
    }
    reached = entrances(place, PORT_NAME, block.port, team=block.open_to is OpenTo.TEAM)
    held = {"device": place.resource_name, "count": spec.count}
    return [*reached, _service(place, block), pods.queued(deployment, spec, place, template=held)]


def _rolling(block: ServiceBlock) -> Manifest:
    """RULE: at least one replica answers all the time. Of several, one goes while its successor comes, so
    that a full quota never holds a new version up. A single one stays until its successor answers, for which
    the quota must have room.
    """
    return {"maxSurge": 1, "maxUnavailable": 1 if block.replicas > 1 else 0}


def _container(spec: WorkloadSpec, place: PlacementSpec, block: ServiceBlock) -> Manifest:
    container = pods.container(spec, place, home=pods.HOME)
    container["ports"] = [{"name": PORT_NAME, "containerPort": block.port, "protocol": "TCP"}]
    container["startupProbe"] = _asked(block, EVERY, fails=-(-block.start_seconds // EVERY))
    container["readinessProbe"] = _asked(block, EVERY, fails=2)
    container["livenessProbe"] = _asked(block, 2 * EVERY, fails=6)
    # Who still knows its address sends it a request meanwhile.
    container["lifecycle"] = {"preStop": {"sleep": {"seconds": LEAVES}}}
    return container


def _asked(block: ServiceBlock, seconds: int, *, fails: int) -> Manifest:
    """Whether it is well, asked every so many seconds; after so many bad answers in a row it is not."""
    http = {"httpGet": {"path": block.health_path, "port": block.health_port}}
    how = http if block.health_path else {"tcpSocket": {"port": block.port}}
    return {**how, "periodSeconds": seconds, "timeoutSeconds": TIMEOUT, "failureThreshold": fails}


def _service(place: PlacementSpec, block: ServiceBlock) -> Manifest:
    """With an address of its own: each connection goes to a replica that is ready."""
    service = pods.manifest("v1", "Service", place)
    service["spec"] = {
        "selector": pods.selector(place),
        "ports": [{"name": PORT_NAME, "port": block.port, "targetPort": PORT_NAME, "protocol": "TCP"}],
    }
    return service


KIND = Definition(
    order=4,
    icon="server",
    about="Something that answers HTTP, such as an LLM endpoint: replicas, health checks, its own address.",
    controller=CONTROLLER,
    wish=ServiceWish,
    body=ServiceBlockBody,
    parse=block_of,
    as_json=body_of,
    build=build,
    image_hint="Such as vllm/vllm-openai:v0.11.0.",
    priority=Priority.INTERACTIVE,
    is_ready=is_ready,
    begins_again=True,
    time_is_ours=True,
    shares_volumes=True,
    needs="deployments",
    opens=True,
    port=lambda block: block.port,
    rolls=("image", "command", "args", "env", "cpu", "memory", "service"),
    purpose=Purpose.SERVING,
    several="replicas",
    at_once=REPLICAS,
    fields=(
        COMMAND,
        FormField("port", "service/port", "Port", "Where it answers HTTP.", "8000", Takes.NUMBER),
        FormField("replicas", "service/replicas", "Replicas", "Each holds its devices.", "1", Takes.NUMBER),
        FormField(
            "health_path", "service/health_path", "Health path",
            "Such as /health. Empty: that its port takes connections.", longest=200,
        ),
        FormField(
            "start_seconds", "service/start_seconds", "Starts within",
            "Seconds until it answers for the first time. Empty: 600.", takes=Takes.NUMBER,
            usual=lambda _document: USUAL_START, is_advanced=True, is_short=False,
        ),
        FormField(
            "health_port", "service/health_port", "Health port", "Empty: the same port.",
            takes=Takes.NUMBER, usual=lambda document: document["service"]["port"],
            is_advanced=True, is_short=False,
        ),
        FormField(
            "open_to", "service/open_to", "Who opens it", takes=Takes.CHOICE,
            choices=(("", OpenTo.TEAM.label), (OpenTo.OWNER.value, OpenTo.OWNER.label)),
            usual=lambda _document: OpenTo.TEAM, is_advanced=True, is_short=False,
        ),
    ),
)  # fmt: skip
