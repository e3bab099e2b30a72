"""Where each role begins, what waits for a person there, and what the console says to others."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.quotas.requests.services.deciding import RequestWish, ask
from apps.quotas.specs import RequestKind
from apps.tenants.models import DepartmentManager, Tenant
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import Cast, SignedIn, as_actor
from tests.factories import make_workload
from tests.pages.conftest import Scene

PASSWORD = "a long password"


def lands(user: User, **wanted: str) -> str:
    user.set_password(PASSWORD)
    user.save()
    answer = Client().post("/sign-in/", {"username": user.username, "password": PASSWORD, **wanted})
    return str(answer["Location"])


def test_everybody_lands_where_their_role_begins(cast: Cast) -> None:
    DepartmentManager.objects.create(department=cast.genomics.department, user=cast.otto)
    people = (cast.petra, cast.ann, cast.leon, cast.rosa, cast.otto)
    assert [lands(user) for user in people] == [
        "/console/", "/console/", "/t/vision/", "/", "/console/tenants/",
    ]  # fmt: skip
    assert lands(cast.petra, next="/t/vision/") == "/t/vision/"


@pytest.fixture
def asked(scene: Scene) -> None:
    cast = scene.cast
    wish = RequestWish(RequestKind.GUARANTEED, 1, "The deadline.", 3 * 86400)
    ask(actor=as_actor(cast.leon), tenant=cast.vision, offer=cast.offer, wish=wish, now=scene.now)


@pytest.mark.usefixtures("asked")
def test_a_quota_request_needs_the_platform_and_is_told_to_the_lead(
    scene: Scene, signed_in: SignedIn
) -> None:
    fleet = signed_in(scene.cast.petra).get("/console/").content.decode()
    assert '<a href="/console/requests/">1 quota request</a>' in fleet
    team = signed_in(scene.cast.leon).get("/t/vision/").content.decode()
    assert '<a href="/t/vision/quota/">1 quota request</a>' in team
    assert "Needs you" not in signed_in(scene.cast.rosa).get("/t/vision/").content.decode()


def test_a_deletion_waits_for_a_second_person_on_the_fleet(scene: Scene, signed_in: SignedIn) -> None:
    Tenant.objects.filter(slug="speech").update(deletion_asked_at=scene.now, deletion_asked_by="platform")
    shown = signed_in(scene.cast.petra).get("/console/").content.decode()
    assert '<a href="/console/tenants/speech/">Deletion of ' in shown
    Tenant.objects.filter(slug="speech").update(deletion_approved_by="second")
    assert "Deletion of" not in signed_in(scene.cast.petra).get("/console/").content.decode()


def test_the_console_says_whom_it_is_for_in_the_portals_own_frame(scene: Scene, signed_in: SignedIn) -> None:
    answer = signed_in(scene.cast.rosa).get("/console/")
    shown = answer.content.decode()
    assert answer.status_code == 404
    assert "It is for those who run the fleet" in shown
    assert "/console/tenants/" not in shown, "no way into what she may not see"
    assert 'href="/t/vision/workloads/"' in shown


def test_what_starts_for_too_long_needs_a_person_and_says_why(cast: Cast, client: Client) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="slow-pull")
    client.force_login(cast.petra)
    for minutes, is_named in ((5, False), (20, True)):
        admitted = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""}
        since = (timezone.now() - timedelta(minutes=minutes)).isoformat()
        ready = {"type": "Ready", "status": "False", "reason": "Starting", "message": "Being started."}
        Workload.objects.filter(pk=row.pk).update(
            phase=Phase.STARTING, conditions=[admitted | {"since": since}, ready]
        )
        page = client.get("/console/").content.decode()
        assert ("slow-pull of vision" in page) is is_named
        assert ("Starting: Being started." in page) is is_named
