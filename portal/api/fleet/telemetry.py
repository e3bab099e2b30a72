"""REST of telemetry issues. Contract: docs/api.md. Reads only."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.metering.models import TelemetryIssue
from apps.metering.specs import TroubleKind
from apps.metering.telemetry.selectors import latest, reported_issues
from apps.metering.telemetry.selectors.latest import Last
from portal.api.base.tables import ItemsCsv
from portal.api.base.views import ApiView, paginate
from portal.api.declared.declaring import answers, named, pages, refuses
from portal.api.declared.queries import Flag, Texts, Words


class TelemetryIssueBody(TypedDict):
    """Something wrong with what a source sends, and what to do about it."""

    object: Literal["telemetry_issue"]
    id: str
    cluster: str
    node: Annotated[str | None, "Null: of the whole source."]
    kind: TroubleKind
    message: Annotated[str, "What is wrong and exactly what to do."]
    kept_aside: Annotated[str | None, "The beginning of what could not be read."]
    count: Annotated[int, "How often it was seen."]
    created_at: datetime
    last_at: datetime
    resolved_at: Annotated[datetime | None, "Null: it is still so."]


class LastSampleBody(TypedDict):
    """What a device told last: activities are 0 to 1; null is unknown."""

    device: str
    gpu_instance: Annotated[int | None, "Null of a whole GPU."]
    profile: str | None
    at: datetime | None
    sm_active: float | None
    sm_occupancy: float | None
    tensor_active: float | None
    fp64_active: float | None
    fp32_active: float | None
    fp16_active: float | None
    dram_active: float | None
    gpu_util: Annotated[float | None, "What nvidia-smi says."]
    pcie_tx_bytes_per_second: float | None
    pcie_rx_bytes_per_second: float | None
    nvlink_bytes_per_second: float | None
    sm_clock_mhz: float | None
    throttled_by: Annotated[list[str] | None, "Why the clocks are lowered; empty: they are not."]
    celsius: float | None
    power_watts: float | None
    energy_joules: float | None
    xid: float | None


class NodeTelemetryBody(TypedDict):
    """What each device of a node told last."""

    node: str
    items: list[LastSampleBody]


CLUSTER = Texts("cluster", "Only of these clusters, by slug.")
NODE = Texts("node", "Only of these nodes.")
KIND = Words("kind", "Only of these kinds.", tuple(TroubleKind))
OPEN = Flag("open", "Leave out issues that are resolved.")


class TelemetryIssuesView(ApiView):
    """Telemetry issues, open and resolved."""

    scope_group = ScopeGroup.METERING
    lists = True
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns = (
        "id", "cluster", "node", "kind", "message", "kept_aside", "count", "created_at", "last_at",
        "resolved_at",
    )  # fmt: skip
    sorts = ("-created_at",)
    parameters = (CLUSTER, KIND, NODE, OPEN)

    @pages(TelemetryIssueBody)
    @refuses("not_found")
    def get(self, request: Request) -> Response:
        """Newest first; `open=true` leaves out what is over. For those who see the whole fleet."""
        rows = reported_issues.issues_for(self.actor)
        for each, column in ((CLUSTER, "cluster__slug"), (NODE, "node"), (KIND, "kind")):
            asked = each.of(request)
            rows = rows if asked is None else rows.filter(**{f"{column}__in": asked})
        if OPEN.of(request):
            rows = rows.filter(resolved_at=None)
        return paginate(request, rows, issue_body)


class NodeTelemetryView(ApiView):
    """`nodes/{name}/telemetry`: the last sample of each device of a node."""

    scope_group = ScopeGroup.METERING

    @named("nodes_telemetry")
    @answers(200, NodeTelemetryBody)
    def get(self, request: Request, name: str) -> Response:  # noqa: ARG002 - Django's signature
        """Of those that were heard of within a day; null is unknown. For those who see the whole fleet."""
        found = latest.of_node(self.actor, name, now=timezone.now())
        body: NodeTelemetryBody = {"node": name, "items": [_last(each) for each in found]}
        return Response(body)


def _last(each: Last) -> LastSampleBody:
    device, sample = each.device, each.sample
    return {
        "device": device.uuid,
        "gpu_instance": None if device.gpu_instance < 0 else device.gpu_instance,
        "profile": device.profile or None,
        "at": sample.ts if sample else None,
        "sm_active": each.ratio("sm_active"),
        "sm_occupancy": each.ratio("sm_occupancy"),
        "tensor_active": each.ratio("tensor_active"),
        "fp64_active": each.ratio("fp64_active"),
        "fp32_active": each.ratio("fp32_active"),
        "fp16_active": each.ratio("fp16_active"),
        "dram_active": each.ratio("dram_active"),
        "gpu_util": each.number("smi", 100),
        "pcie_tx_bytes_per_second": each.number("pcie_tx"),
        "pcie_rx_bytes_per_second": each.number("pcie_rx"),
        "nvlink_bytes_per_second": each.number("nvlink"),
        "sm_clock_mhz": each.number("sm_clock_mhz"),
        "throttled_by": each.throttled,
        "celsius": each.number("celsius"),
        "power_watts": each.number("power_mw", 1000),
        "energy_joules": each.number("energy_mj", 1000),
        "xid": each.number("xid"),
    }


def issue_body(row: TelemetryIssue) -> TelemetryIssueBody:
    """An issue as REST shows it."""
    return {
        "object": "telemetry_issue",
        "id": str(row.pk),
        "cluster": row.cluster.slug,
        "node": row.node or None,
        "kind": TroubleKind(row.kind),
        "message": row.message,
        "kept_aside": row.kept_aside or None,
        "count": row.count,
        "created_at": row.created_at,
        "last_at": row.last_at,
        "resolved_at": row.resolved_at,
    }
