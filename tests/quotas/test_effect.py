"""What a change of quota will do, told before it is kept, on the simulated fleet `story`: two whole H100."""

from django.test import Client

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.quotas.allowances.selectors import effect
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Quota
from apps.quotas.specs import Priority
from apps.tenants.models import Tenant
from tests.factories import NOW
from tests.quotas.conftest import Story
from tests.quotas.effects import WHOLE, give, shared, work
from tests.quotas.fleet import reserve
from tests.tenants.rest import Rest

__all__ = ["shared"]


def preview(story: Story, tenant: Tenant, amounts: Amounts | None) -> effect.Effect:
    return quota_changes.preview_quota(
        actor=story.petra, tenant=tenant, offer=story.offer(WHOLE), amounts=amounts, now=NOW
    )


def test_the_sum_against_the_inventory_is_told(shared: Story) -> None:
    told = preview(shared, shared.vision, Amounts(1, 0))
    assert (told.owned, told.promised_before, told.promised) == (2, 2, 3)
    assert told.sum_sentence == "3 of 2 devices are promised (2 before): 1 more than there are."


def test_a_preview_keeps_nothing(shared: Story) -> None:
    events = AuditEvent.objects.count()
    preview(shared, shared.vision, Amounts(9, 9))
    assert Quota.objects.get(tenant=shared.vision).nominal_quota == 0
    assert AuditEvent.objects.count() == events


def test_what_waits_and_would_start_is_named(shared: Story) -> None:
    give(shared, shared.vision, Amounts(0, 0))
    reconcile_queue(shared.vision.queue.pk, gateway=shared.gateway)
    work(shared, shared.vision, "sweep")
    told = preview(shared, shared.vision, Amounts(1, 0))
    assert [(each.tenant, each.name, each.devices) for each in told.starts] == [("vision", "job-sweep", 1)]
    assert preview(shared, shared.vision, Amounts(0, 0)).starts == ()


def test_who_loses_borrowed_devices_is_named_with_who_gets_them(shared: Story) -> None:
    work(shared, shared.vision, "guest", priority=Priority.PREEMPTIBLE, runs=True)
    work(shared, shared.vision, "other", priority=Priority.PREEMPTIBLE, runs=True)
    give(shared, shared.speech, Amounts(0, 0))
    reconcile_queue(shared.speech.queue.pk, gateway=shared.gateway)
    work(shared, shared.speech, "owner", priority=Priority.INTERACTIVE)
    told = preview(shared, shared.speech, Amounts(1, 0))
    # One device is promised and two are in use: room for one comes only once both are free.
    assert {(lost.tenant, lost.name, lost.to) for lost in told.loses} == {
        ("vision", "job-guest", "speech"),
        ("vision", "job-other", "speech"),
    }
    assert [each.name for each in told.starts] == ["job-owner"]


def test_a_cut_below_what_runs_says_that_it_stays(shared: Story) -> None:
    flavor = shared.offer(WHOLE).flavor.object_name
    reserve(shared.gateway, shared.speech.object_name, flavor, h100_whole=2)
    shared.gateway.mirror(shared.cluster)
    told = preview(shared, shared.speech, Amounts(1, 0))
    assert told.over == 1
    assert told.over_sentence == "1 device in use exceeds the new limit; it stays until its work ends."


def test_where_kueue_shares_fairly_nobody_pretends_to_know(shared: Story) -> None:
    kueue = shared.gateway.simulated.client(manager="kueue")
    name = shared.vision.object_name
    share = {"status": {"fairSharing": {"weightedShare": 0}}}
    kueue.patch("clusterqueues.kueue.x-k8s.io", name, share, subresource="status")
    shared.gateway.mirror(shared.cluster)
    assert "fairSharing is on" in preview(shared, shared.vision, Amounts(1, 0)).unknown
    petra, quota = User.objects.get(username="platform"), Quota.objects.get(tenant=shared.vision)
    address, body = f"/quotas/{quota.pk}?dry_run=true", {"spec": {"nominal_quota": 1}}
    told = Rest(petra).send("PATCH", address, body, match="*").json()["effect"]
    assert "who starts is not predicted" in told["unknown"]
    browser = Client()
    browser.force_login(petra)
    form = {"nominal_quota": 1, "borrowing_limit": 0, "generation": quota.generation}
    page = browser.post(f"/console/quotas/vision/{WHOLE}/", form).content.decode()
    assert "who starts is not predicted" in page
    assert "Nobody loses a device" not in page


def test_a_silent_cluster_is_said(shared: Story) -> None:
    shared.cluster.silent_since = NOW
    shared.cluster.save(update_fields=["silent_since"])
    shared.vision.refresh_from_db()
    assert "is silent" in preview(shared, shared.vision, Amounts(1, 0)).unknown


def test_a_rehearsal_over_rest_tells_the_effect(shared: Story) -> None:
    give(shared, shared.vision, Amounts(0, 0))
    reconcile_queue(shared.vision.queue.pk, gateway=shared.gateway)
    work(shared, shared.vision, "sweep")
    petra, quota = Rest(User.objects.get(username="platform")), Quota.objects.get(tenant=shared.vision)
    body = {"spec": {"nominal_quota": 1}}
    answer = petra.send("PATCH", f"/quotas/{quota.pk}?dry_run=true", body, match="*").json()
    told = answer["effect"]
    assert (told["promised_before"], told["promised"], told["owned"]) == (2, 3, 2)
    assert [each["name"] for each in told["starts"]] == ["job-sweep"]
    assert told["loses"] == []
    assert Quota.objects.get(pk=quota.pk).nominal_quota == 0


def test_a_rehearsed_removal_tells_what_is_no_longer_promised(shared: Story) -> None:
    petra, quota = Rest(User.objects.get(username="platform")), Quota.objects.get(tenant=shared.speech)
    answer = petra.send("DELETE", f"/quotas/{quota.pk}?dry_run=true", match="*").json()
    assert (answer["effect"]["promised_before"], answer["effect"]["promised"]) == (2, 0)
    assert Quota.objects.filter(pk=quota.pk).exists()


def test_a_workloads_name_is_read_back_from_its_objects_name() -> None:
    assert effect.readable("sweep-7-abcdefghij") == "sweep-7"
    assert effect.readable("made-with-kubectl") == "made-with-kubectl"
