"""A notebook: a pod that serves an IDE, and that the reconcile makes anew whenever it is gone. Pure.

Image, uid, HOME and start follow the Jupyter Docker Stacks' documentation (docs/workload-images.md).
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from apps.cluster.objects import names
from apps.quotas.specs import Priority
from apps.workloads.manifests import pods
from apps.workloads.manifests.entrances import entrances
from apps.workloads.manifests.pods import Manifest
from apps.workloads.purpose_specs import Purpose
from apps.workloads.registry import Definition, FormField, Takes
from apps.workloads.spec import hours
from apps.workloads.spec.field_reader import Reader
from apps.workloads.specs import (
    ALONE,
    HOME_VOLUME,
    NOTEBOOK_HOME,
    Ide,
    NotebookBlock,
    OpenTo,
    PlacementSpec,
    WorkloadSpec,
)
from apps.workloads.status.derivation import is_true

PORT, PORT_NAME = 8888, "ide"
TOKEN_SUFFIX, TOKEN_KEY, TOKEN_TYPE = "-ide", "token", "allotment.dev/ide"
TOKEN_VARIABLE = "JUPYTER_TOKEN"  # noqa: S105 - its name
START = {Ide.JUPYTERLAB: ("start-notebook.py", "--ServerApp.ip=0.0.0.0", f"--ServerApp.port={PORT}")}
"""What each IDE's image is started with, unless the request says otherwise."""


class NotebookWish(TypedDict):
    """What only a notebook has."""

    ide: NotRequired[Ide | None]
    open_to: NotRequired[Annotated[OpenTo | None, "owner unless named."]]
    hours: NotRequired[hours.WorkingHoursWish | None]


class NotebookBlockBody(TypedDict):
    """What only a notebook has."""

    ide: Ide
    open_to: Annotated[OpenTo, "Who opens it in the browser; only its owner opens it to the team."]
    hours: Annotated[hours.WorkingHoursBody | None, "Null: it runs until somebody or its lease stops it."]


def block_of(read: Reader) -> NotebookBlock:
    """The block, or problems at its fields."""
    read.only({"ide", "open_to", "hours"})
    found = hours.read(read)
    ide = read.text("ide", default=str(Ide.JUPYTERLAB), longest=32)
    open_to = read.text("open_to", default=str(OpenTo.OWNER), longest=16)
    for name, value, known in (("ide", ide, Ide), ("open_to", open_to, OpenTo)):
        if value not in set(known):
            read.refuse(name, f"One of {', '.join(known)}.")
            return NotebookBlock()
    return NotebookBlock(ide=Ide(ide), open_to=OpenTo(open_to), hours=found)


def refuse_an_end_for_good(read: Reader, block: NotebookBlock, spec: WorkloadSpec) -> None:
    """RULE: no longest wait beside working hours. They start it again and again, and on the first morning
    without a free place it would end for good.
    """
    if block.hours is not None and spec.max_wait_seconds is not None:
        words = "Working hours start it each day, and it would end for good on a full one: leave one out."
        read.refuse("max_wait_seconds", words)


def body_of(block: NotebookBlock) -> NotebookBlockBody:
    """The JSON of the block, complete."""
    return {"ide": block.ide, "open_to": block.open_to, "hours": hours.as_json(block.hours)}


def is_ready(pod: Mapping[str, Any]) -> bool:
    """It is there when it can be opened."""
    return is_true(pod, "Ready") and not pod.get("metadata", {}).get("deletionTimestamp")


def build(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """RULE: a stop removes the pod; the volume claims are objects of their own and stay."""
    template = pods.template(spec, place, _container(spec, place), restart="Always")
    template["metadata"]["labels"] |= {names.LABEL_INGRESS: "proxy"}
    makes = pods.of_set(template, spec, place) if place.named_by else pods.alone(template, spec, place)
    # Never the team's pods: an IDE's token is no fence against neighbours in the namespace.
    reached = entrances(place, PORT_NAME, PORT)
    # A Gateway leads to a Service alone; and one that was made with a Service of its own keeps it.
    has_service = place.gateway or place.named_by == place.object_name
    service = [_service(place)] if has_service else []
    return [*reached, *service, _token(place), makes]


def _container(spec: WorkloadSpec, place: PlacementSpec) -> Manifest:
    container = pods.container(spec, place, home=NOTEBOOK_HOME)
    container["ports"] = [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}]
    container["readinessProbe"] = {"tcpSocket": {"port": PORT_NAME}, "periodSeconds": 5}
    key = {"name": f"{place.object_name}{TOKEN_SUFFIX}", "key": TOKEN_KEY}
    others = [variable for variable in container["env"] if variable["name"] != TOKEN_VARIABLE]
    container["env"] = [*others, {"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": key}}]
    if spec.notebook and not spec.command and not spec.args:
        container["args"] = list(START[spec.notebook.ide])
    return container


def _token(place: PlacementSpec) -> Manifest:
    """What the door says to the IDE. Of a type of our own, by which the chart's policy knows it: the product
    may write no other Secret of a workload.
    """
    secret = pods.manifest("v1", "Secret", place, suffix=TOKEN_SUFFIX)
    return secret | {
        "type": TOKEN_TYPE,
        "data": {TOKEN_KEY: base64.b64encode(place.ide_token.encode()).decode()},
    }


def _service(place: PlacementSpec) -> Manifest:
    """Headless: it names the pod and takes no address of the cluster."""
    service = pods.manifest("v1", "Service", place)
    service["spec"] = {
        "clusterIP": "None",
        "selector": pods.selector(place),
        "ports": [{"name": PORT_NAME, "port": PORT, "targetPort": PORT_NAME, "protocol": "TCP"}],
    }
    return service


KIND = Definition(
    order=1,
    icon="notebook",
    about="JupyterLab on a GPU, with a disk that survives every stop. It stops after a time you set.",
    controller=ALONE,
    wish=NotebookWish,
    body=NotebookBlockBody,
    parse=block_of,
    as_json=body_of,
    refuse=refuse_an_end_for_good,
    build=build,
    image=lambda block: block.ide.image,
    image_hint=f"Empty: {Ide.JUPYTERLAB.image}",
    volumes=(HOME_VOLUME,),
    reserves=(TOKEN_VARIABLE,),
    priority=Priority.INTERACTIVE,
    is_ready=is_ready,
    is_leased=True,
    begins_again=True,
    opens=True,
    port=lambda _block: PORT,
    purpose=Purpose.INTERACTIVE,
    fields=(
        FormField(
            "disk", "volumes", "Disk", "Your home; survives stops.", "10Gi", Takes.DISK, volume=HOME_VOLUME
        ),
        FormField(
            "days", "notebook/hours/days", "Working days",
            "Such as Mon-Fri: outside its hours it is stopped, and started when they begin. Empty: no hours.",
            takes=Takes.DAYS, is_short=False, is_advanced=True,
        ),
        FormField(
            "hours_from", "notebook/hours/from", "From", "Empty: 08:00.", takes=Takes.CLOCK, is_advanced=True
        ),
        FormField(
            "hours_until", "notebook/hours/until", "Until", "The same day. Empty: 18:00.", takes=Takes.CLOCK,
            is_advanced=True,
        ),
        FormField(
            "hours_zone", "notebook/hours/time_zone", "Time zone", "Such as Europe/Berlin. Empty: UTC.",
            longest=hours.LONGEST_ZONE, is_advanced=True,
        ),
    ),
)  # fmt: skip
