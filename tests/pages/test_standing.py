"""What a workload's page says at its head besides its phase."""

from datetime import timedelta

from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import Cast, SignedIn
from tests.workloads import bodies
from tests.workloads.asking import submit
from tests.workloads.queueing import tell


def test_that_not_all_of_its_pods_run(cast: Cast, signed_in: SignedIn) -> None:
    row, words = submit(cast), "1 of 8 runs; 7 crash: exit 1."
    for reason, is_said in (("PartlyRuns", True), ("NotReady", True), ("Running", False)):
        ready = {"type": "Ready", "status": "True", "reason": reason, "message": words}
        Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, conditions=[ready])
        page = signed_in(cast.rosa).get(f"/t/vision/workloads/{row.pk}/").content.decode()
        assert (words in page) is is_said


def test_what_kueue_took_out_of_its_queue_may_be_started_again(cast: Cast, signed_in: SignedIn) -> None:
    row = submit(cast)
    Workload.objects.filter(pk=row.pk).update(observed_generation=row.generation)
    at = f"{row.asked_at + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
    out = bodies.condition("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded", at=at)
    for conditions, is_offered in ((), False), ((out,), True):
        tell(row, bodies.queued(*conditions, active=False))
        page = signed_in(cast.rosa).get(f"/t/vision/workloads/{row.pk}/").content.decode()
        assert "taken out" in page or "took it out of its queue" in page
        assert ('id="resume"' in page) is is_offered
