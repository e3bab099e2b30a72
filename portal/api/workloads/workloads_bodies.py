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
from apps.workloads.opening.rules import ide_activity
from apps.workloads.opening.selectors import ide_use
from apps.workloads.queue.rules.effects import Arrangement, Effect
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.rules.wishes import LONGEST_NAME, LONGEST_VALUE, MOST_SECRETS
from apps.workloads.selectors import reading, working_hours
from apps.workloads.spec import parsing
from apps.workloads.spec.bodies import WorkloadSpecBody
from apps.workloads.spec.field_reader import CONTROL
from apps.workloads.spec.wishes import WorkloadWish
from apps.workloads.specs import Kind, Phase, WorkloadChange, WorkloadRequest
from apps.workloads.status.arrays import Standing
from apps.workloads.waiting.selectors import waiting
from portal.api.base.money import money
from portal.api.base.serializers import BoundedDict, Shaped, StrictSerializer
from portal.api.base.writing import merged, rehearsed
from portal.api.workloads import last_run_bodies
from portal.api.workloads.shapes import (
    ArrangementRehearsalBody,
    CountdownBody,
    EndpointBody,
    HoursStandingBody,
    IdeUseBody,
    MadeFromBody,
    NewWorkloadRehearsalBody,
    WorkloadBody,
    WorkloadCostBody,
    WorkloadEventBody,
    WorkloadItemsBody,
    WorkloadStatusBody,
)


def printable(value: str) -> None:
    """Raises ValidationError for a text with control characters."""
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


class SecretSerializer(StrictSerializer):
    """What PUT takes; the value is sealed at once and never answered."""

    into = serializers.ChoiceField(choices=[str(each) for each in Into], default=str(Into.ENV))
    value = serializers.CharField(max_length=LONGEST_VALUE, trim_whitespace=False, write_only=True)


class NewSecretSerializer(SecretSerializer):
    """A secret of a workload that is asked for."""

    name = serializers.CharField(max_length=LONGEST_NAME)


class NewWorkload(StrictSerializer):
    """The body of a POST."""

    tenant = serializers.CharField(max_length=64)
    slug = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    name = serializers.CharField(required=False, allow_blank=True, max_length=120, validators=[printable])
    labels = Labels(required=False)
    spec = SpecField()
    secrets = NewSecretSerializer(many=True, required=False, max_length=MOST_SECRETS)  # type: ignore[call-arg]


class ChangedWorkload(StrictSerializer):
    """The writable fields, in a PUT."""

    name = serializers.CharField(required=False, max_length=120, validators=[printable])
    labels = Labels(required=False)
    spec = SpecField(required=False)


class PatchedWorkload(ChangedWorkload):
    """The writable fields, in a PATCH (RFC 7396)."""

    spec = SpecPatchField(required=False)


class WorkloadCopy(StrictSerializer):
    """What a copy has that its original has not; `spec` is a merge patch."""

    slug = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    name = serializers.CharField(required=False, allow_blank=True, max_length=120, validators=[printable])
    spec = SpecCopyField(required=False)
    secrets = NewSecretSerializer(many=True, required=False, max_length=MOST_SECRETS)  # type: ignore[call-arg]


class FailedItems(StrictSerializer):
    """How the new array is called; without a name it is made of the old one's."""

    slug = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    name = serializers.CharField(required=False, allow_blank=True, max_length=120, validators=[printable])


class WorkloadReason(StrictSerializer):
    """The body of stop and resume."""

    reason = serializers.CharField(
        required=False, allow_blank=True, max_length=500, default="", validators=[printable]
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
        secrets=secrets_of(body),
    )


def secrets_of(body: Mapping[str, Any]) -> tuple[SecretWish, ...]:
    """The secrets that a body of a new workload brings along."""
    return tuple(SecretWish(s["name"], Into(s["into"]), s["value"]) for s in body.get("secrets") or ())


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
    of = _spec(row)
    # Sharing is its new owner's choice.
    alone = {
        str(kind): {**block, "open_to": None} for kind in Kind if "open_to" in (block := of.get(kind) or {})
    }
    spec = merged({**of, **alone, "suspend": False}, body.get("spec") or {})
    return WorkloadRequest(
        spec=parsing.parse(spec),
        slug=body.get("slug") or "",
        name=body.get("name") or f"{row.name} (copy)"[:120],
        labels=dict(row.labels),
        secrets=secrets_of(body),
        like=str(row.pk),
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
        "items": _items(reading.standing_of(row)),
        "replicas": row.replicas,
        "queue": waiting.queue_of(actor, row, now, queues),
        "endpoints": [_endpoint(each) for each in reading.endpoints(row)],
        "countdown": _countdown(row, now),
        "ide": _ide(row, now),
        "working_hours": _hours(row, now),
        "gpu_idle_since": row.gpu_idle_since,
        "utilization": None,
        "cost": _cost(row, settings.CONFIG.currency),
        "protected_until": row.protected_until,
        "made_from": _made_from(row),
        "next_offer": row.next_offer.slug if row.next_offer else None,
        "last_run": last_run_bodies.shown(row),
        "started_at": row.started_at,
        "ended_at": row.ended_at,
    }


def _hours(row: Workload, now: datetime) -> HoursStandingBody | None:
    message = working_hours.words_of(row, now)
    if not message:
        return None
    starts = row.hours_due_at if row.suspended else None
    return {"stops_at": row.hours_stop, "starts_at": starts, "message": message}


def _made_from(row: Workload) -> MadeFromBody | None:
    if row.template_version is None:
        return None
    return {"template": row.template, "version": row.template_version}


def _items(found: Standing | None) -> WorkloadItemsBody | None:
    if found is None:
        return None
    return {
        "total": found.total,
        "done": len(found.done),
        "failed": len(found.failed),
        "left": found.left,
        "done_items": found.done_text,
        "failed_items": found.failed_text,
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


def _ide(row: Workload, now: datetime) -> IdeUseBody | None:
    message = ide_use.words_of(row, now)
    if not message:
        return None
    found = ide_use.activity_of(row, now)
    work = None if found is None or found.is_vs_code else found
    return {
        "message": message,
        "problem": None if found else ide_activity.problem(row.ide),
        "kernels": work.kernels if work else None,
        "running": work.running if work else None,
        "tabs": found.tabs if found else None,
        "last_activity": found.last_activity if found else None,
        "terminals": work.terminals if work else None,
        "terminal_activity": work.terminal_activity if work else None,
        "answered_at": found.answered_at if found else None,
    }


def _cost(row: Workload, currency: str) -> WorkloadCostBody:
    return {
        "hourly": amounts.money(row.cost_hourly, currency),
        "allocated": amounts.money(row.cost_allocated, currency),
        "refunded": amounts.money(row.cost_refunded, currency),
        "effective": amounts.money(row.cost_effective, currency),
        "waste": amounts.money(row.cost_waste, currency),
        "recoverable": amounts.money(row.cost_recoverable, currency),
        "inefficiency": amounts.money(row.cost_inefficiency, currency),
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
