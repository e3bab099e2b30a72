"""Work without a GPU on the pages: it is asked for by the core, and nothing tells of devices."""

from datetime import timedelta
from uuid import uuid4

import pytest

from apps.quotas.models import Offer, Price
from apps.workloads.models import Workload
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene

STEP = "/t/vision/new/job/cpu-cores/"
TYPED = {"name": "prep", "cpu": "8", "image": "python:3.13", "command": "python prepare.py"}


@pytest.fixture
def cores(scene: Scene) -> Offer:
    """64 cores for vision."""
    offer = factories.make_cores(scene.cast.vision.cluster)
    factories.make_quota(scene.cast.vision, offer, nominal=64)
    Price.objects.update(valid_from=scene.now - timedelta(days=1))
    return offer


def test_a_job_is_asked_for_by_the_core(scene: Scene, cores: Offer, signed_in: SignedIn) -> None:
    rosa = signed_in(scene.cast.rosa)
    choices = rosa.get("/t/vision/new/job/").content.decode()
    assert "4.0 GiB with each core" in choices
    assert choices.index('id="offer-h100-1g-10gb"') < choices.index('id="offer-cpu-cores"')
    fields = rosa.get(STEP).content.decode()
    assert 'name="count"' not in fields
    assert "At most 4Gi per core" in fields
    review = " ".join(rosa.post(f"{STEP}review/", TYPED).content.decode().split())
    for words in ("8 × CPU cores", "0.40 EUR/h", "8 cores, 32.0 GiB", "nvidia.com/gpu.product"):
        assert words in review
    sent = {**TYPED, "kind": "job", "offer": "cpu-cores", "key": str(uuid4()), "seen_hourly": "0.40"}
    assert rosa.post("/t/vision/workloads/", sent).status_code == 303
    row = Workload.objects.get(name="prep")
    assert (row.spec["count"], row.spec["cpu"], row.spec["memory"]) == (0, "8", "32Gi")
    page = rosa.get(f"/t/vision/workloads/{row.pk}/").content.decode()
    assert "not measured: it has no GPU" in page
    for words in ("GPU memory", "Devices allocated", 'id="use-title"', "0 ×"):
        assert words not in page


def test_a_template_for_cores_says_where_there_are_none(scene: Scene, signed_in: SignedIn) -> None:
    petra, rosa = signed_in(scene.cast.petra), signed_in(scene.cast.rosa)
    petra.post("/console/shipped-templates/")
    address = "/t/vision/templates/data-preparation/"
    assert "has no offer of cores" in " ".join(rosa.get(address).content.decode().split())
    factories.make_quota(scene.cast.vision, factories.make_cores(scene.cast.vision.cluster), nominal=64)
    shown = rosa.get(address).content.decode()
    assert "has no offer of cores" not in shown
    assert "h100-1g-10gb" not in shown


def test_the_console_sells_them_by_the_core(scene: Scene, cores: Offer, signed_in: SignedIn) -> None:
    petra = signed_in(scene.cast.petra)
    assert "4.0 GiB with each core" in petra.get("/console/offers/").content.decode()
    shown = " ".join(petra.get("/console/offers/cpu-cores/").content.decode().split())
    assert "0 of 0 cores" in shown
    assert "Part of the GPU" not in shown
    assert petra.get("/console/quotas/").status_code == 200
    assert "CPU cores" in petra.get("/t/vision/quota/").content.decode()
