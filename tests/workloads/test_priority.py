"""The priority of a workload: its class by kind, and who may protect work. The chart knows every class."""

from pathlib import Path

import pytest
import yaml
from django.utils import timezone

from apps.errors import Invalid, NotAllowed
from apps.quotas.specs import Priority
from apps.workloads.lifecycle.services import verbs
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange, WorkloadRequest
from tests import factories
from tests.conftest import Cast, as_actor

pytestmark = pytest.mark.both_databases

CHART = Path(__file__).resolve().parents[2] / "k8s" / "allotment" / "templates" / "priorities.yaml"


def test_the_chart_brings_every_class_with_its_value_and_its_words() -> None:
    found = {body["metadata"]["name"]: body for body in yaml.safe_load_all(CHART.read_text())}
    assert {name: (body["value"], body["description"]) for name, body in found.items()} == {
        priority.value: (priority.rank, priority.sentence) for priority in Priority
    }


@pytest.mark.parametrize(("kind", "usual"), [("notebook", Priority.INTERACTIVE), ("job", Priority.BATCH)])
def test_the_usual_class_goes_by_the_kind(kind: str, usual: Priority) -> None:
    spec = parsing.parse({"kind": kind, "offer": "h100-whole", "image": "python:3.13", kind: {}})
    assert spec.priority is usual
    assert parsing.as_json(spec)["priority"] == usual.value


def test_an_unknown_class_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Invalid, match="interactive, batch, preemptible, protected"):
        parsing.parse(factories.notebook_body("h100-whole") | {"priority": "urgent"})


def test_a_member_does_not_protect_work_and_a_lead_does(cast: Cast) -> None:
    spec = parsing.parse(factories.notebook_body(cast.offer.slug) | {"priority": "protected"})
    request, now = WorkloadRequest(spec), timezone.now()
    with pytest.raises(NotAllowed, match="lead of vision"):
        verbs.submit_workload(actor=as_actor(cast.rosa), tenant=cast.vision, request=request, now=now)
    made = verbs.submit_workload(actor=as_actor(cast.leon), tenant=cast.vision, request=request, now=now)
    assert made.spec["priority"] == "protected"


def test_a_class_changes_while_it_runs_and_only_downwards_for_a_member(cast: Cast) -> None:
    spec = parsing.parse(factories.notebook_body(cast.offer.slug))
    row = factories.make_workload(cast.vision, cast.rosa, cast.offer, slug="rag", spec=parsing.as_json(spec))
    row.phase = Phase.RUNNING
    row.save(update_fields=["phase"])
    rosa, now = as_actor(cast.rosa), timezone.now()
    lower = parsing.parse(parsing.as_json(spec) | {"priority": "preemptible"})
    changed = verbs.update_workload(actor=rosa, workload=row, change=WorkloadChange(lower), now=now)
    assert changed.spec["priority"] == "preemptible"
    higher = parsing.parse(parsing.as_json(spec) | {"priority": "protected"})
    with pytest.raises(NotAllowed):
        verbs.update_workload(actor=rosa, workload=row, change=WorkloadChange(higher), now=now)
