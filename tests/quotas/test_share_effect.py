"""What another place or other bounds of a department will do, told before they are kept: two whole H100 of
speech in research, and vision in a department of its own.
"""

import pytest

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.errors import Invalid, NotAllowed
from apps.quotas.allowances.selectors.effect import Moves
from apps.quotas.allowances.services import weighing
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.allowances.services.weighing import DepartmentShare
from apps.quotas.models import TenantQueue
from apps.quotas.specs import Priority
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Department, Tenant
from tests.conftest import as_actor
from tests.factories import NOW, make_department, make_user
from tests.quotas.conftest import Story
from tests.quotas.effects import WHOLE, give, work
from tests.tenants.rest import Rest


@pytest.fixture
def apart(story: Story) -> Story:
    """Vision, in the department bio, is guaranteed nothing and may borrow whatever is lent; speech, in
    research, is guaranteed both whole H100 and lends them.
    """
    bio = make_department(story.cluster, "bio")
    Tenant.objects.filter(pk=story.vision.pk).update(department=bio)
    story.vision.refresh_from_db()
    reconcile_tenant(story.vision.pk, gateway=story.gateway)
    give(story, story.vision, Amounts(0, None))
    give(story, story.speech, Amounts(2, 0))
    arrive(story)
    return story


def arrive(story: Story) -> None:
    """The cluster has what the rows say."""
    for department in Department.objects.all():
        reconcile_department(department.pk, gateway=story.gateway)
    for queue in TenantQueue.objects.all():
        reconcile_queue(queue.pk, gateway=story.gateway)
    story.gateway.mirror(story.cluster)


def placed(story: Story, parent: str | None, borrow: int | None = None) -> DepartmentShare:
    """Below another department, with so many whole H100 to borrow."""
    above = Department.objects.get(slug=parent) if parent else None
    return DepartmentShare(above, bounds={story.offer(WHOLE): (borrow, None)} if above else {})


def preview(story: Story, share: DepartmentShare) -> Moves:
    bio = Department.objects.get(slug="bio")
    return weighing.preview_share(actor=story.petra, department=bio, share=share, now=NOW)


def keep(story: Story, share: DepartmentShare) -> None:
    bio = Department.objects.get(slug="bio")
    weighing.set_share(actor=story.petra, department=bio, share=share, now=NOW)
    arrive(story)


def test_below_another_department_what_waits_starts_as_far_as_the_bound_goes(apart: Story) -> None:
    for name in ("first", "second"):
        work(apart, apart.vision, name)
    assert [each.name for each in preview(apart, placed(apart, "research")).starts] == [
        "job-first",
        "job-second",
    ]
    assert [each.name for each in preview(apart, placed(apart, "research", 1)).starts] == ["job-first"]
    assert preview(apart, placed(apart, "research", 0)).starts == ()
    assert preview(apart, placed(apart, None)).starts == ()


def test_a_preview_keeps_nothing(apart: Story) -> None:
    events = AuditEvent.objects.count()
    preview(apart, placed(apart, "research", 1))
    bio = Department.objects.get(slug="bio")
    assert (bio.parent, bio.bounds, bio.generation) == (None, [], 1)
    assert AuditEvent.objects.count() == events


def test_a_rehearsal_over_rest_tells_the_effect(apart: Story) -> None:
    work(apart, apart.vision, "sweep")
    petra = Rest(User.objects.get(username="platform"))
    body = {"spec": {"parent": "research", "bounds": [{"offer": WHOLE, "borrowing_limit": 1}]}}
    told = petra.send("PUT", "/departments/bio/sharing?dry_run=true", body).json()["effect"]
    assert [each["name"] for each in told["starts"]] == ["job-sweep"]
    assert (told["over"], told["loses"], told["unknown"]) == (0, [], None)
    assert Department.objects.get(slug="bio").parent is None


def test_what_runs_above_a_lower_bound_is_counted_and_stays(apart: Story) -> None:
    keep(apart, placed(apart, "research"))
    for name in ("first", "second"):
        work(apart, apart.vision, name, runs=True)
    told = preview(apart, placed(apart, "research", 0))
    assert (told.over, told.loses) == (2, ())
    assert told.over_sentence == "2 devices in use exceed the new limit; they stay until their work ends."
    assert preview(apart, placed(apart, "research", 1)).over == 1
    assert preview(apart, placed(apart, "research", 2)).over == 0


def test_what_is_lost_without_the_change_too_is_not_its_effect(apart: Story) -> None:
    keep(apart, placed(apart, "research"))
    for name in ("guest", "other"):
        work(apart, apart.vision, name, priority=Priority.PREEMPTIBLE, runs=True)
    work(apart, apart.speech, "owner", priority=Priority.INTERACTIVE)
    told = preview(apart, placed(apart, "research", 2))
    assert (told.loses, told.starts, told.unknown) == ((), (), "")


def test_refusals_are_those_of_the_change(apart: Story) -> None:
    research = Department.objects.get(slug="research")
    with pytest.raises(Invalid, match="Only a department that has a parent"):
        preview(apart, DepartmentShare(None, bounds={apart.offer(WHOLE): (1, None)}))
    rosa = as_actor(make_user("rosa"))
    with pytest.raises(NotAllowed):
        weighing.preview_share(actor=rosa, department=research, share=placed(apart, "bio"), now=NOW)


def test_on_a_silent_cluster_nobody_pretends_to_know(apart: Story) -> None:
    apart.cluster.silent_since = NOW
    apart.cluster.save(update_fields=["silent_since"])
    told = preview(apart, placed(apart, "research"))
    assert "is silent" in told.unknown
    assert told.starts == ()
