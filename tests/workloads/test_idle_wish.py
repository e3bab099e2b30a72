"""A workload's own idle policy: what may be sent, who may let work idle, the form's folded fields."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.errors import Invalid, NotAllowed
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import IdleAction, IdleWish, Kind, Phase, WorkloadChange, WorkloadRequest
from portal.pages.team.workloads import workload_forms
from tests.conftest import Cast, as_actor
from tests.factories import notebook_body
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

NONE = {"action": "none", "for_seconds": None}
STEP = "/t/vision/new/notebook/h100-1g-10gb/"


def submit(cast: Cast, user: User, idle: dict[str, Any] | None) -> Workload:
    spec = parsing.parse(notebook_body(cast.offer.slug, idle_policy=idle))
    request = WorkloadRequest(spec, slug="nb-idle")
    return verbs.submit_workload(
        actor=as_actor(user), tenant=cast.vision, request=request, now=timezone.now()
    )


def change(row: Workload, user: User, idle: dict[str, Any] | None) -> Workload:
    spec = parsing.parse(parsing.as_json(parsing.parse(row.spec)) | {"idle_policy": idle})
    return verbs.update_workload(
        actor=as_actor(user), workload=row, change=WorkloadChange(spec), now=timezone.now()
    )


def test_it_is_read_and_written_back() -> None:
    spec = parsing.parse(notebook_body(idle_policy={"action": "warn", "for_seconds": 1800}))
    assert spec.idle_policy == IdleWish(IdleAction.WARN, 1800)
    assert parsing.parse(parsing.as_json(spec)) == spec
    soonest = parsing.parse(notebook_body(idle_policy={"action": "warn", "for_seconds": 120}))
    assert soonest.idle_policy == IdleWish(IdleAction.WARN, 120)
    short = parsing.parse(notebook_body(idle_policy={"action": "stop"}))
    assert parsing.as_json(short)["idle_policy"] == {"action": "stop", "for_seconds": None}
    assert parsing.as_json(parsing.parse(notebook_body()))["idle_policy"] is None


@pytest.mark.parametrize(
    ("wrong", "pointer", "code"),
    [
        ({"for_seconds": 3600}, "/spec/idle_policy/action", "required"),
        ({"action": "sleep"}, "/spec/idle_policy/action", "invalid_value"),
        ({"action": "stop", "for_seconds": 119}, "/spec/idle_policy/for_seconds", "out_of_range"),
        ({"action": "stop", "for_seconds": "1h"}, "/spec/idle_policy/for_seconds", "invalid_value"),
        ({"action": "stop", "sm_active_below": 0.1}, "/spec/idle_policy/sm_active_below", "unknown_field"),
        ("none", "/spec/idle_policy", "invalid_value"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_pointer(wrong: object, pointer: str, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        parsing.parse(notebook_body(idle_policy=wrong))
    assert (pointer, code) in [(each.pointer, each.code) for each in refused.value.problems]


@pytest.mark.django_db
def test_a_lead_lets_work_idle_and_a_member_does_not(cast: Cast) -> None:
    with pytest.raises(NotAllowed, match="Only a lead of vision"):
        submit(cast, cast.rosa, NONE)
    made = submit(cast, cast.leon, NONE)
    assert (made.spec["idle_policy"], made.idle_by_lead) == (NONE, True)


@pytest.mark.django_db
def test_it_changes_while_it_runs_and_whoever_changes_it_last_counts(cast: Cast) -> None:
    row = submit(cast, cast.rosa, {"action": "stop"})
    assert not row.idle_by_lead
    Workload.objects.update(phase=Phase.RUNNING)
    with pytest.raises(NotAllowed, match="Only a lead of vision"):
        change(row, cast.rosa, NONE)
    row = change(row, cast.leon, NONE)
    assert row.idle_by_lead
    event = AuditEvent.objects.filter(action="workload.update").latest("sequence")
    assert event.changes["idle_policy"][1] == NONE
    assert change(row, cast.rosa, NONE).idle_by_lead
    row = change(row, cast.rosa, {"action": "warn"})
    assert (row.spec["idle_policy"]["action"], row.idle_by_lead) == ("warn", False)
    assert not change(row, cast.rosa, None).idle_by_lead


@pytest.mark.django_db
def test_rest_keeps_it_and_refuses_a_member_who_lets_work_idle(cast: Cast) -> None:
    rosa, leon = Api(cast.rosa), Api(cast.leon)
    body = {"tenant": "vision", "slug": "nb-a", "spec": notebook_body(cast.offer.slug, idle_policy=NONE)}
    refused = rosa.call("post", body=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    made = leon.call("post", body=body).json()
    assert made["spec"]["idle_policy"] == NONE
    json.dumps(made)


def test_the_form_says_what_rest_would_be_sent_and_types_it_again() -> None:
    typed = {"idle_action": "warn", "idle_after": "1800", "disk": "10Gi", "count": "1"}
    form = workload_forms.WorkloadForm(typed, kind=Kind.NOTEBOOK, offer="h100-1g-10gb")
    assert form.is_valid(), form.errors
    assert form.spec is not None
    assert form.spec.idle_policy == IdleWish(IdleAction.WARN, 1800)
    again = workload_forms.typed("nb", form.spec)
    assert (again["idle_action"], again["idle_after"]) == ("warn", "1800")
    lone = workload_forms.WorkloadForm(
        {"idle_after": "1800", "count": "1"}, kind=Kind.NOTEBOOK, offer="h100-1g-10gb"
    )
    assert not lone.is_valid()
    assert "idle_action" in lone.errors
    assert lone.is_advanced


@pytest.mark.django_db
def test_pages_fold_it_away_and_show_what_holds(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.rosa)
    page = client.get(STEP).content.decode()
    assert '<details class="more"><summary>Advanced</summary>' in page
    assert 'name="idle_action"' in page
    typed = client.get(f"{STEP}?idle_action=warn").content.decode()
    assert '<details class="more" open>' in typed
    row = submit(cast, cast.rosa, {"action": "warn", "for_seconds": 1800})
    shown = client.get(f"/t/vision/workloads/{row.pk}/").content.decode()
    assert "or the team's policy, where it is stricter" in shown
