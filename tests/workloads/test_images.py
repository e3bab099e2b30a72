"""The catalogue of images: what is one image, who may choose what, what CUDA needs, how it is pulled."""

from dataclasses import replace
from typing import Any

import pytest
from django.db.models import QuerySet

from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.conditions import condition
from apps.errors import Conflict, Invalid, NotAllowed
from apps.tenants.models import Tenant
from apps.workloads.images.rules import cuda, references
from apps.workloads.images.selectors import catalogue
from apps.workloads.images.services import keeping
from apps.workloads.images.services.keeping import ImageWish
from apps.workloads.lifecycle.services import verbs
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Image, Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import ImageLimits, ImagesAllowed, Kind, Phase
from tests import factories
from tests.cluster.doubles import FakeCluster
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_image
from tests.workloads.asking import asked, change, submit

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

DIGEST = f"registry.example/lab@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.13", "docker.io/library/python:3.13"),
        ("index.docker.io/library/python:3.13", "docker.io/library/python:3.13"),
        ("jupyter/base:1", "docker.io/jupyter/base:1"),
        ("Quay.IO/jupyter/base", "quay.io/jupyter/base:latest"),
        ("localhost:5000/lab", "localhost:5000/lab:latest"),
        (DIGEST, DIGEST),
    ],
)
def test_two_spellings_of_an_image_are_one(reference: str, full: str) -> None:
    assert references.full(reference) == full


@pytest.mark.parametrize(
    ("reference", "prefix", "is_below"),
    [
        ("quay.io/jupyter/base:1", "quay.io", True),
        ("quay.io/jupyter/base:1", "quay.io/jupyter/", True),
        ("quay.io/jupyter/base:1", "quay.io/jupyter/base", True),
        ("python", "docker.io", True),
        (DIGEST, "registry.example/lab", True),
        ("quay.io.evil.example/jupyter/base", "quay.io", False),
        ("quay.io:5000/jupyter/base", "quay.io", False),
        ("quay.io/jupyterhub/base", "quay.io/jupyter", False),
        ("evil.example/quay.io/base", "quay.io", False),
    ],
)
def test_an_image_lies_below_a_registry_at_a_border_of_parts(
    reference: str, prefix: str, *, is_below: bool
) -> None:
    assert references.is_below(reference, prefix) is is_below


@pytest.mark.parametrize("prefix", ["jupyter", "quay.io/Jupyter", "https://quay.io", "quay.io/*", "-x.io"])
def test_a_prefix_that_names_no_registry_is_refused(prefix: str) -> None:
    assert references.problems_of([prefix], "/spec/prefixes")[0].pointer == "/spec/prefixes/0"


@pytest.mark.parametrize(
    ("image", "driver", "words"),
    [
        ("12.4", "12.4", ""),
        ("12.4", "13.0.0", ""),
        ("12.8", "12.4", "most programs run"),
        ("13.0", "12.9", "will not find a GPU"),
        ("12.4", "", "is not known"),
    ],
)
def test_a_driver_serves_what_is_not_newer_than_itself(image: str, driver: str, words: str) -> None:
    wanted = cuda.version(image)
    assert wanted is not None
    told = cuda.sentence("Lab", wanted, "H100", cuda.version(driver))
    assert words in told if words else told == ""


def limit(cast: Cast, tenant: Tenant | None, allowed: ImagesAllowed, *prefixes: str) -> None:
    limits = ImageLimits(allowed, prefixes)
    keeping.set_limits(actor=as_actor(cast.petra), tenant=tenant, limits=limits, now=NOW)


def refused(cast: Cast, image: str, **spec: Any) -> str:
    """The words of the refusal; empty where it is taken."""
    try:
        submit(cast, image=image, **spec)
    except Invalid as refusal:
        (problem,) = refusal.problems
        assert problem.pointer == "/spec/image"
        return problem.detail
    return ""


def test_any_image_may_be_used_until_somebody_says_otherwise(cast: Cast) -> None:
    assert refused(cast, "anybody.example/lab:1") == ""


def test_with_the_catalogue_alone_a_refusal_names_what_may_be_chosen_and_who_adds_more(cast: Cast) -> None:
    make_image("lab", "quay.io/jupyter/lab:1", for_all=True)
    limit(cast, None, ImagesAllowed.CATALOGUE)
    words = refused(cast, "jupyter/pytorch:1")
    assert "Lab (quay.io/jupyter/lab:1)" in words
    assert "platform engineer adds more" in words
    assert refused(cast, "quay.io/jupyter/lab:1") == ""


def test_a_tenants_own_rule_outdoes_the_installations_until_it_is_taken_away(cast: Cast) -> None:
    limit(cast, None, ImagesAllowed.CATALOGUE)
    limit(cast, cast.vision, ImagesAllowed.LISTED, "quay.io/jupyter")
    assert refused(cast, "quay.io/jupyter/lab:1") == ""
    assert "quay.io/jupyter too" in refused(cast, "quay.io/other/lab:1", slug="b")
    keeping.set_limits(actor=as_actor(cast.petra), tenant=cast.vision, limits=None, now=NOW)
    assert refused(cast, "quay.io/jupyter/lab:1", slug="another") != ""


def test_an_image_for_others_or_for_another_kind_is_not_in_ones_catalogue(cast: Cast) -> None:
    theirs = make_image("theirs", "registry.example/theirs:1")
    theirs.tenants.set([cast.genomics])
    jobs = make_image("jobs", "registry.example/jobs:1", for_all=True)
    Image.objects.filter(pk=jobs.pk).update(kinds=["job"])
    limit(cast, None, ImagesAllowed.CATALOGUE)
    assert "theirs" not in refused(cast, theirs.reference).lower().replace("registry.example/theirs", "")
    assert refused(cast, jobs.reference) != ""
    assert [each.slug for each in catalogue.choices(cast.vision, Kind.JOB)] == ["jobs"]
    assert set(catalogue.images_for(as_actor(cast.rosa))) == {jobs}
    assert set(catalogue.images_for(as_actor(cast.ann))) == {jobs, theirs}


def test_a_retired_image_is_chosen_no_more_not_even_by_its_reference_and_what_has_it_starts_again(
    cast: Cast,
) -> None:
    image = make_image("lab", "jupyter/pytorch:1", for_all=True)
    row = submit(cast)
    keeping.retire_image(actor=as_actor(cast.petra), image=image, reason="a hole", now=NOW)
    assert "was retired on 2026-11-20: a hole." in refused(cast, "docker.io/jupyter/pytorch:1", slug="b")
    row = verbs.stop_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=NOW)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.STOPPED)
    row = verbs.resume_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=NOW)
    assert not row.suspended
    keeping.restore_image(actor=as_actor(cast.petra), image=image, now=NOW)
    assert refused(cast, "jupyter/pytorch:1", slug="b") == ""


def test_a_change_to_an_image_that_is_not_allowed_is_refused_and_any_other_change_is_not(cast: Cast) -> None:
    row = submit(cast)
    limit(cast, None, ImagesAllowed.CATALOGUE)
    assert change(cast, row, memory="8Gi").generation == 2
    with pytest.raises(Invalid):
        change(cast, row, image="another.example/lab:1")


def test_only_a_platform_engineer_keeps_the_catalogue_and_an_image_stands_in_it_once(cast: Cast) -> None:
    wish = ImageWish(name="Lab", reference="python:3.13")
    for user in (cast.rosa, cast.leon, cast.ann):
        with pytest.raises(NotAllowed):
            keeping.add_image(actor=as_actor(user), wish=wish, now=NOW)
        with pytest.raises(NotAllowed):
            keeping.set_limits(actor=as_actor(user), tenant=cast.vision, limits=ImageLimits(), now=NOW)
    petra = as_actor(cast.petra)
    made = keeping.add_image(actor=petra, wish=wish, now=NOW)
    with pytest.raises(Conflict):
        keeping.add_image(
            actor=petra, wish=replace(wish, name="Twin", reference="docker.io/library/python:3.13"), now=NOW
        )
    same = keeping.update_image(actor=petra, image=made, wish=wish, now=NOW)
    assert same.generation == 1, "the same again changes nothing"
    named = keeping.update_image(actor=petra, image=made, wish=replace(wish, tenants=(cast.vision,)), now=NOW)
    assert (named.generation, named.is_for_all) == (2, False)
    told = AuditEvent.objects.filter(action="image.update").get()
    assert told.changes == {"tenants": [None, ["vision"]]}


@pytest.mark.parametrize(("twin", "words"), [("b:1", "The slug lab is taken"), ("a:1", "this image already")])
def test_of_two_who_add_the_same_at_once_one_is_refused(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, twin: str, words: str
) -> None:
    """Both saw that slug and image were free."""
    wish, refuses = ImageWish(name="Lab", reference="a:1", slug="lab"), keeping._refuse_twice
    keeping.add_image(actor=as_actor(cast.petra), wish=wish, now=NOW)
    monkeypatch.setattr(QuerySet, "exists", lambda _: False)
    monkeypatch.setattr(keeping, "_refuse_twice", lambda *_: setattr(keeping, "_refuse_twice", refuses))
    with pytest.raises(Conflict, match=words):
        keeping.add_image(actor=as_actor(cast.petra), wish=replace(wish, reference=twin), now=NOW)
    assert Image.objects.count() == 1


@pytest.mark.parametrize(
    ("wish", "pointer"),
    [
        (ImageWish(name="x", reference="not an image"), "/spec/reference"),
        (ImageWish(name="x", reference="a:1", cuda_version="new"), "/spec/cuda_version"),
        (ImageWish(name="x", reference="a:1", kinds=()), "/spec/kinds"),
        (ImageWish(name="x", reference="a:1", tenants=()), "/spec/tenants"),
    ],
)
def test_a_wrong_entry_is_refused_at_its_field(cast: Cast, wish: ImageWish, pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        keeping.add_image(actor=as_actor(cast.petra), wish=wish, now=NOW)
    assert [problem.pointer for problem in refusal.value.problems] == [pointer]


def checks_images(cluster: Cluster) -> None:
    cluster.capabilities = [
        {"name": "image-credentials", "available": True, "version": None, "message": "", "missing": []}
    ]
    cluster.save()


class House:
    """One workload and the double of its cluster."""

    def __init__(self, row: Workload) -> None:
        self.row, self.cluster = row, FakeCluster()

    def turn(self) -> Workload:
        """The watch tells what is gone, then the reconcile."""
        known = MirrorObject.objects.filter(owner_id=str(self.row.pk), kind="Pod", gone_at=None)
        if known.exists() and not any(ref.kind == "Pod" for ref in self.cluster.objects):
            known.update(gone_at=NOW)
        reconcile(self.row.pk, gateway=self.cluster)
        self.row.refresh_from_db()
        return self.row


def pod_of(cluster: FakeCluster) -> Any:
    (found,) = [body for ref, body in cluster.objects.items() if ref.kind == "Pod"]
    return found["spec"]


@pytest.mark.parametrize(
    ("image", "is_checked", "policy"),
    [
        (DIGEST, True, "IfNotPresent"),
        (DIGEST, False, "Always"),
        ("registry.example/lab:1", True, "Always"),
    ],
)
def test_only_a_digest_is_kept_and_only_where_kubelets_check_who_may_use_it(
    cast: Cast, image: str, policy: str, *, is_checked: bool
) -> None:
    if is_checked:
        checks_images(cast.vision.cluster)
    house = House(submit(cast, image=image))
    house.turn()
    (container,) = pod_of(house.cluster)["containers"]
    assert container["imagePullPolicy"] == policy


def test_a_run_keeps_how_its_image_is_pulled_and_its_next_one_is_settled_anew(cast: Cast) -> None:
    """A pod template that changes is another object: what runs would be killed by an upgrade."""
    house = House(submit(cast, image=DIGEST))
    house.turn()
    checks_images(cast.vision.cluster)
    Tenant.objects.update(has_registries=True)
    house.turn()
    spec = pod_of(house.cluster)
    assert (spec["containers"][0]["imagePullPolicy"], "imagePullSecrets" in spec) == ("Always", False)
    verbs.stop_workload(actor=as_actor(cast.rosa), workload=house.row, reason="", now=NOW)
    house.turn()
    house.turn()
    verbs.resume_workload(actor=as_actor(cast.rosa), workload=house.turn(), reason="", now=NOW)
    house.turn()
    spec = pod_of(house.cluster)
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert spec["imagePullSecrets"] == [{"name": "allotment-registries"}]


def test_a_login_that_is_added_helps_what_waits_for_its_image(cast: Cast) -> None:
    house = House(submit(cast))
    house.turn()
    Tenant.objects.update(has_registries=True)
    conditions = [condition("Ready", False, "ImagePullBackOff", "denied") | {"since": NOW.isoformat()}]
    Workload.objects.filter(pk=house.row.pk).update(phase=Phase.STARTING, conditions=conditions)
    house.turn()
    house.turn()
    assert pod_of(house.cluster)["imagePullSecrets"] == [{"name": "allotment-registries"}]


def test_a_preview_shows_how_the_image_would_be_pulled(cast: Cast) -> None:
    checks_images(cast.vision.cluster)
    Tenant.objects.update(has_registries=True)
    vision = Tenant.objects.get(slug="vision")
    found = verbs.preview_workload(
        actor=as_actor(cast.rosa), tenant=vision, request=asked(image=DIGEST), now=NOW
    )
    (pod,) = [m["spec"] for m in found.manifests if m["kind"] == "Pod"]
    assert pod["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert pod["imagePullSecrets"] == [{"name": "allotment-registries"}]


def test_workloads_are_counted_by_image_however_it_is_written_and_only_those_one_sees(cast: Cast) -> None:
    image = make_image("lab", "docker.io/jupyter/pytorch:1", for_all=True)
    submit(cast)
    factories.make_workload(cast.genomics, cast.otto, cast.offer, slug="theirs")
    for user, count in ((cast.petra, 2), (cast.rosa, 1), (cast.otto, 1)):
        assert catalogue.users_of(as_actor(user), [image]) == {image.pk: count}


def test_a_stored_workload_of_before_shows_its_manifests_as_they_are(cast: Cast) -> None:
    row = submit(cast, image=DIGEST)
    checks_images(cast.vision.cluster)
    row.refresh_from_db()
    place = reading.place_of(row)
    assert (place.keeps_image, place.pull_secret) == (False, "")
    assert parsing.stored(row.spec).image == DIGEST
