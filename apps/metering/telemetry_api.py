"""REST of what is wrong with telemetry. Contract: docs/api.md. Reads only."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.metering import lately, selectors
from apps.metering.lately import Last
from apps.metering.models import TelemetryIssue
from apps.metering.specs import TroubleKind
from apps.web.api import ApiView, paginate
from apps.web.queries import Flag, Texts, Words
from apps.web.tables import ItemsCsv


class TelemetryIssueSerializer(serializers.Serializer[Any]):
    """Something wrong with what a source sends, and what to do about it."""

    object = serializers.CharField(default="telemetry_issue")
    id = serializers.CharField()
    cluster = serializers.CharField()
    node = serializers.CharField(allow_null=True, help_text="null: of the whole source")
    kind = serializers.ChoiceField(choices=TroubleKind.choices())
    message = serializers.CharField(help_text="what is wrong and exactly what to do")
    kept_aside = serializers.CharField(allow_null=True, help_text="the beginning of what could not be read")
    count = serializers.IntegerField(help_text="how often it was seen")
    created_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    resolved_at = serializers.DateTimeField(allow_null=True, help_text="null: it is still so")


class NodeTelemetrySerializer(serializers.Serializer[Any]):
    """What each device of a node told last."""

    node = serializers.CharField()
    items = serializers.JSONField(help_text="device, at, activities 0 to 1, rates, clocks, power, energy")


CLUSTER = Texts("cluster", "Only of these clusters, by slug.")
NODE = Texts("node", "Only of these nodes.")
KIND = Words("kind", "Only of these kinds.", tuple(TroubleKind))
OPEN = Flag("open", "Leave out what is over.")


class TelemetryIssuesView(ApiView):
    """What is wrong with telemetry, and what was."""

    scope_group = ScopeGroup.METERING
    lists = True
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns = (
        "id", "cluster", "node", "kind", "message", "kept_aside", "count", "created_at", "last_at",
        "resolved_at",
    )  # fmt: skip
    sorts = ("-created_at",)
    parameters = (CLUSTER, KIND, NODE, OPEN)

    @extend_schema(operation_id="telemetry_issues_list", responses=TelemetryIssueSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Newest first; `open=true` leaves out what is over. For those who see the whole fleet."""
        rows = selectors.issues_for(self.actor)
        for each, column in ((CLUSTER, "cluster__slug"), (NODE, "node"), (KIND, "kind")):
            asked = each.of(request)
            rows = rows if asked is None else rows.filter(**{f"{column}__in": asked})
        if OPEN.of(request):
            rows = rows.filter(resolved_at=None)
        return paginate(request, rows, issue_body)


class NodeTelemetryView(ApiView):
    """`nodes/{name}/telemetry`: the last sample of each device of a node."""

    scope_group = ScopeGroup.METERING

    @extend_schema(operation_id="nodes_telemetry", responses=NodeTelemetrySerializer)
    def get(self, request: Request, name: str) -> Response:  # noqa: ARG002 - Django's signature
        """Of those that were heard of within a day; null is unknown. For those who see the whole fleet."""
        found = lately.of_node(self.actor, name, now=timezone.now())
        return Response({"node": name, "items": [_last(each) for each in found]})


def _last(each: Last) -> dict[str, Any]:
    device, sample = each.device, each.sample
    watts, joules = each.number("power_mw", 1000), each.number("energy_mj", 1000)
    return {
        "device": device.uuid,
        "gpu_instance": None if device.gpu_instance < 0 else device.gpu_instance,
        "profile": device.profile or None,
        "at": sample and sample.ts,
        **{name: each.ratio(name) for name in lately.RATIOS},
        "gpu_util": each.number("smi", 100),
        **{f"{name}_bytes_per_second": each.number(name) for name in lately.RATES},
        "sm_clock_mhz": each.number("sm_clock_mhz"),
        "throttled_by": each.throttled,
        "celsius": each.number("celsius"),
        "power_watts": watts,
        "energy_joules": joules,
        "xid": each.number("xid"),
    }


def issue_body(row: TelemetryIssue) -> dict[str, Any]:
    """An issue as REST shows it."""
    return {
        "object": "telemetry_issue",
        "id": str(row.pk),
        "cluster": row.cluster.slug,
        "node": row.node or None,
        "kind": row.kind,
        "message": row.message,
        "kept_aside": row.kept_aside or None,
        "count": row.count,
        "created_at": row.created_at,
        "last_at": row.last_at,
        "resolved_at": row.resolved_at,
    }
