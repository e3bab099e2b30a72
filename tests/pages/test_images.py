"""Choosing an image on the pages: what the form offers, what the review tells, the console's catalogue."""

from typing import Any

import pytest
from django.test import Client

from apps.cluster.models import MirrorObject
from apps.tenants.models import Tenant
from apps.workloads.images.selectors import drivers
from apps.workloads.images.services import keeping
from apps.workloads.models import Image
from apps.workloads.specs import ImageLimits, ImagesAllowed
from tests.conftest import SignedIn, as_actor
from tests.factories import NOW, make_image
from tests.pages.conftest import Scene

pytestmark = pytest.mark.django_db


def only_the_catalogue(scene: Scene) -> None:
    limits, petra = ImageLimits(ImagesAllowed.CATALOGUE), as_actor(scene.cast.petra)
    keeping.set_limits(actor=petra, tenant=None, limits=limits, now=NOW)


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


STEP = "/t/vision/new/notebook/h100-1g-10gb/"
TYPED = {"name": "rag", "count": "1", "memory": "16Gi", "disk": "20Gi", "run_hours": "4"}


def words_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_cuda_that_the_driver_does_not_serve_is_told_at_the_review_with_what_fits(
    scene: Scene,
    rosa: Client,
) -> None:
    image = make_image("new", "quay.io/jupyter/new:1", cuda="13.1", for_all=True)
    typed = {**TYPED, "listed": image.reference}
    assert drivers.served(scene.cast.vision.cluster)[scene.cast.offer.pk] == (13, 0)
    shown = words_of(rosa.post(f"{STEP}review/", typed))
    assert "New has CUDA 13.1, and the driver of H100 1g.10gb serves 13.0 at most: most programs run" in shown
    assert "No offer of the team fits" in shown
    Image.objects.update(cuda_version="13.0")
    assert "has CUDA" not in words_of(rosa.post(f"{STEP}review/", typed))


def test_one_device_with_an_old_driver_is_enough_to_tell_of_it(scene: Scene) -> None:
    for row in MirrorObject.objects.filter(kind="ResourceSlice"):
        devices = row.body["spec"]["devices"]
        if devices and "profile" in devices[-1]["attributes"]:
            devices[-1]["attributes"].pop("cudaDriverVersion", None)
            row.save()
    served = drivers.served(scene.cast.vision.cluster)
    assert served[scene.cast.offer.pk] is None, "what one device does not tell is not known"


def test_the_form_offers_the_catalogue_and_another_image_only_where_one_is_allowed(
    scene: Scene,
    rosa: Client,
) -> None:
    assert 'name="listed"' not in rosa.get(STEP).content.decode(), "nothing is listed"
    make_image("lab", "quay.io/jupyter/lab:1", cuda="12.4", for_all=True)
    shown = rosa.get(STEP).content.decode()
    assert "Lab (CUDA 12.4)" in shown
    assert 'name="image"' in shown
    only_the_catalogue(scene)
    assert 'name="image"' not in rosa.get(STEP).content.decode()
    assert "You may not" not in words_of(
        rosa.post(f"{STEP}review/", {**TYPED, "listed": "quay.io/jupyter/lab:1"})
    )
    answer = rosa.post(f"{STEP}review/", {**TYPED, "image": "evil.example/lab:1"})
    assert answer.status_code == 422
    assert "vision may not use this image" in words_of(answer)


def test_an_image_that_is_both_chosen_and_typed_is_asked_about(scene: Scene, rosa: Client) -> None:
    make_image("lab", "quay.io/jupyter/lab:1", for_all=True)
    typed = {**TYPED, "listed": "quay.io/jupyter/lab:1", "image": "quay.io/jupyter/other:1"}
    answer = rosa.post(f"{STEP}review/", typed)
    assert (answer.status_code, "Choose Another image above" in words_of(answer)) == (422, True)


@pytest.fixture
def petra(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.petra)


def test_an_image_is_listed_changed_retired_and_restored(scene: Scene, petra: Client) -> None:
    typed = {"name": "Lab", "reference": "jupyter/pytorch:1", "kinds": ["notebook"], "size": "4Gi"}
    answer = petra.post("/console/images/", typed)
    assert (answer.status_code, answer["Location"]) == (303, "/console/images/lab/")
    shown = words_of(petra.get("/console/images/lab/"))
    assert "3 workloads</strong> have it" in shown
    asked = words_of(petra.get("/console/images/lab/retire/"))
    assert "3 workloads have it: what runs goes on, what is stopped may start again." in asked
    assert 'name="reason"' in asked
    petra.post("/console/images/lab/retire/", {"reason": "old"})
    assert ": old. <strong>3 workloads" in words_of(petra.get("/console/images/lab/"))
    petra.post("/console/images/lab/restore/")
    changed = petra.post("/console/images/lab/", {**typed, "tenants": ["vision"], "cuda_version": "x"})
    assert (changed.status_code, "A version, such as 12.4." in words_of(changed)) == (422, True)
    petra.post("/console/images/lab/", {**typed, "tenants": ["vision"]})
    (image,) = Image.objects.all()
    assert (image.is_for_all, image.retired_at, image.size_bytes) == (False, None, 4 * 1024**3)


def test_what_was_for_a_deleted_tenant_alone_is_not_opened_to_all(scene: Scene, petra: Client) -> None:
    """RULE: a form that nobody changed changes nothing."""
    typed = {"name": "Lab", "reference": "jupyter/pytorch:1", "kinds": ["notebook"], "tenants": ["vision"]}
    petra.post("/console/images/", typed)
    Tenant.objects.filter(slug="vision").update(deleted_at=NOW)
    page = words_of(petra.get("/console/images/lab/"))
    assert '<option value="vision" selected>Vision (deleted)</option>' in page
    petra.post("/console/images/lab/", typed)
    image = Image.objects.get()
    assert (image.is_for_all, image.tenants.get()) == (False, scene.cast.vision)
    assert 'value="vision"' not in words_of(petra.get("/console/images/")), "nor is it chosen anew"


def test_the_rule_of_the_installation_and_of_a_tenant(scene: Scene, petra: Client) -> None:
    typed = {"allowed": "listed", "prefixes": "quay.io/jupyter\nghcr.io"}
    assert petra.post("/console/image-rules/", typed).status_code == 303
    assert petra.post("/console/image-rules/vision/", {"allowed": "catalogue"}).status_code == 303
    assert "No other image" in words_of(petra.get("/console/image-rules/"))
    assert "images below listed registries" in words_of(petra.get("/console/images/"))
    wrong = petra.post("/console/image-rules/", {"allowed": "listed", "prefixes": "jupyter"})
    assert (wrong.status_code, "A registry, such as" in words_of(wrong)) == (422, True)
