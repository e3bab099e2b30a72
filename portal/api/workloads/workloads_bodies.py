"""The REST form of workloads: bodies into frozen requests, rows into objects. No rules, and no writes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from rest_framework import serializers

from apps.accounts.specs import Actor
from apps.errors import FieldProblem, Invalid
from apps.ranges import EXTENSION_SECONDS, MOST_LABELS
from apps.web.shapes import amounts
from apps.workloads.lifecycle.selectors.admission_check import Preview
from apps.workloads.models import Workload
from apps.workloads.queue.rules.effects import Arrangement, Effect
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.spec.bodies import WorkloadSpecBody
from apps.workloads.spec.field_reader import CONTROL
from apps.workloads.spec.wishes import WorkloadWish
from apps.workloads.specs import Phase, WorkloadChange, WorkloadRequest
from apps.workloads.waiting.selectors import waiting
from portal.api.base.money import money
from portal.api.base.serializers import BoundedDict, Shaped, StrictSerializer
from portal.api.base.writing import merged, rehearsed
from portal.api.workloads.shapes import (
    ArrangementRehearsalBody,
    CountdownBody,
    EndpointBody,
    NewWorkloadRehearsalBody,
    WorkloadBody,
    WorkloadCostBody,
    WorkloadEventBody,
    WorkloadStatusBody,
)


def _printable(value: str) -> None:
    if CONTROL.search(value):
        raise serializers.ValidationError("Must not contain control characters.")


class Labels(BoundedDict):
    """Label keys and values; which may be set is judged in `apps.workloads.spec.labels`."""

    child = serializers.CharField(allow_blank=True, max_length=253)
    max_length = MOST_LABELS


class SpecField(Shaped, serializers.JSONField):
    """A spec; `apps.workloads.spec.parsing` checks it."""

    shape = WorkloadWish


class SpecPatchField(SpecField):
    """A merge patch into a spec; what it makes of it is checked."""

    is_patch = True


class SpecCopyField(Shaped, BoundedDict):
    """A merge patch into the spec of a copy."""

    shape = WorkloadWish
    is_patch = True
    max_length = MOST_LABELS


class NewWorkload(StrictSerializer):
    """The body of a POST."""

    tenant = serializers.CharField(max_length=64)
    slug = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    name = serializers.CharField(required=False, allow_blank=True, max_length=120, validators=[_printable])
    labels = Labels(required=False)
    spec = SpecField()


class ChangedWorkload(StrictSerializer):
    """The writable fields, in a PUT."""

    name = serializers.CharField(required=False, max_length=120, validators=[_printable])
    labels = Labels(required=False)
    spec = SpecField(required=False)


class PatchedWorkload(ChangedWorkload):
    """The writable fields, in a PATCH (RFC 7396)."""

    spec = SpecPatchField(required=False)


class WorkloadCopy(StrictSerializer):
    """What a copy has that its original has not; `spec` is a merge patch."""

    slug = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    name = serializers.CharField(required=False, allow_blank=True, max_length=120, validators=[_printable])
    spec = SpecCopyField(required=False)


class WorkloadReason(StrictSerializer):
    """The body of stop and resume."""

    reason = serializers.CharField(
        required=False, allow_blank=True, max_length=500, default="", validators=[_printable]
    )


class WorkloadMove(WorkloadReason):
    """The body of move: to the front of its queue, or back to its usual place."""

    to = serializers.ChoiceField(choices=[str(Arrangement.FRONT), str(Arrangement.USUAL)], default="front")


class WorkloadExtension(WorkloadReason):
    """The body of extend."""

    seconds = serializers.IntegerField(**EXTENSION_SECONDS.bounds)


def request_of(body: Mapping[str, Any]) -> WorkloadRequest:
    """A request out of a checked body; raises Invalid with pointers into `spec`."""
    return WorkloadRequest(
        spec=parsing.parse(body.get("spec")),
        slug=body.get("slug") or "",
        name=body.get("name") or "",
        labels=dict(body.get("labels") or {}),
    )


def replacement_of(body: Mapping[str, Any], row: Workload) -> WorkloadChange:
    """PUT: what is left out gets its default."""
    asked = named_request_of(body, row.slug)
    return WorkloadChange(spec=asked.spec, name=asked.name, labels=asked.labels)


def named_request_of(body: Mapping[str, Any], slug: str) -> WorkloadRequest:
    """PUT of a slug that is new: read as a replacement is, so that the same body again changes nothing."""
    if "spec" not in body:
        raise Invalid([FieldProblem("/spec", "required", "spec is required.")])
    spec, labels = parsing.parse(body["spec"]), dict(body.get("labels") or {})
    return WorkloadRequest(spec=spec, slug=slug, name=body.get("name") or slug, labels=labels)


def is_same(change: WorkloadChange, row: Workload) -> bool:
    """Whether a replacement would change nothing."""
    spec = change.spec and reading.as_kept(row, change.spec)
    return (spec, change.name, change.labels) == (reading.spec_of(row), row.name, row.labels)


def patch_of(body: Mapping[str, Any], row: Workload) -> WorkloadChange:
    """PATCH: an RFC 7396 merge into what is there."""
    wanted = merged({"labels": row.labels, "spec": _spec(row)}, body)
    return WorkloadChange(
        spec=parsing.parse(wanted.get("spec")) if "spec" in body else None,
        name=body.get("name"),
        labels=dict(wanted.get("labels") or {}) if "labels" in body else None,
    )


def copy_of(body: Mapping[str, Any], row: Workload) -> WorkloadRequest:
    """The request for a copy: the original's spec with the patch merged in, running."""
    spec = merged({**_spec(row), "suspend": False}, body.get("spec") or {})
    return WorkloadRequest(
        spec=parsing.parse(spec),
        slug=body.get("slug") or "",
        name=body.get("name") or f"{row.name} (copy)"[:120],
        labels=dict(row.labels),
    )


def shown(row: Workload, actor: Actor, now: datetime, queues: waiting.Queues | None = None) -> WorkloadBody:
    """A workload as REST has it. No field is left out; null is unset or unknown."""
    return {
        "object": "workload",
        "id": str(row.pk),
        "slug": row.slug,
        "name": row.name,
        "tenant": row.tenant.slug,
        "labels": row.labels,
        "generation": row.generation,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "created_by": row.owner.username,
        "spec": _spec(row),
        "status": _status(row, actor, now, queues),
    }


def _spec(row: Workload) -> WorkloadSpecBody:
    return parsing.as_json(reading.spec_of(row))


def _status(row: Workload, actor: Actor, now: datetime, queues: waiting.Queues | None) -> WorkloadStatusBody:
    return {
        "phase": Phase(row.phase),
        "observed_generation": row.observed_generation,
        "conditions": reading.conditions_of(row),
        "placement": row.placement,
        "queue": waiting.queue_of(actor, row, now, queues),
        "endpoints": [_endpoint(each) for each in reading.endpoints(row)],
        "countdown": _countdown(row, now),
        "utilization": None,
        "cost": _cost(row, settings.CONFIG.currency),
        "protected_until": row.protected_until,
        "next_offer": row.next_offer.slug if row.next_offer else None,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
    }


def _endpoint(found: Mapping[str, Any]) -> EndpointBody:
    return {"name": found["name"], "url": found["url"], "ready": found["ready"]}


def _countdown(row: Workload, now: datetime) -> CountdownBody | None:
    end = reading.countdown(row, now)
    if end is None:
        return None
    return {
        "stops_at": end["stops_at"],
        "reason": end["reason"],
        "message": end["message"],
        "extendable_until": end["extendable_until"],
        "evidence": end["evidence"],
    }


def _cost(row: Workload, currency: str) -> WorkloadCostBody:
    return {
        "hourly": amounts.money(row.cost_hourly, currency),
        "allocated": amounts.money(row.cost_allocated, currency),
        "refunded": amounts.money(row.cost_refunded, currency),
        "effective": amounts.money(row.cost_effective, currency),
        "waste": amounts.money(row.cost_waste, currency),
        "unknown": amounts.money(row.cost_unknown, currency),
        "as_of": row.cost_as_of,
    }


def dry_run(preview: Preview, result: WorkloadBody) -> NewWorkloadRehearsalBody:
    """The answer to a dry run of a POST."""
    return {
        "dry_run": True,
        "result": result,
        "price": {"hourly": money(preview.hourly), "total": money(preview.total)},
        "fit": {
            "verdict": preview.verdict.kind,
            "reason": str(preview.verdict.kind.label),
            "message": preview.verdict.words,
        },
        "queue": preview.queue,
        "manifests": preview.manifests,
        "alternatives": [
            {"offer": a["offer"], "hourly": money(a["hourly"]), "eta": a["eta"]} for a in preview.alternatives
        ],
        "warnings": preview.warnings,
    }


def effect(found: Effect, result: WorkloadBody) -> ArrangementRehearsalBody:
    """The answer to a dry run of a move, a hold or a release: places before and after, and who is passed."""
    return {
        **rehearsed(result),
        "effect": {
            "position_before": found.before,
            "position_after": found.after,
            "of": found.of,
            "priority": found.priority,
            "message": " ".join(found.sentences),
        },
    }


def event(line: reading.Line) -> WorkloadEventBody:
    """One line of a workload's events."""
    return {
        "at": line.at,
        "source": line.source,
        "type": line.type,
        "reason": line.reason,
        "message": line.message,
    }
