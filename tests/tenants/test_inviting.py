"""Leads invite people by e-mail: who comes in at once, who waits, and who decides."""

from collections.abc import Callable

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import people
from apps.accounts.models import ExternalIdentity, Invitation, User
from apps.accounts.oidc import flows
from apps.accounts.oidc.client import Identity
from apps.accounts.oidc.flows import Brought
from apps.accounts.second_person import hands
from apps.audit.models import AuditEvent
from apps.errors import AlreadyExists, Conflict, Invalid, NotAllowed
from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import MemberInvitation, Membership, Tenant
from apps.tenants.people.services import group_rights, inviting
from apps.tenants.specs import InvitationStatus, Role
from tests.conftest import Cast, as_actor
from tests.tenants.invitees import ALLOWED, KIM, approve, configured, has_mail, invite, role_of
from tests.tenants.rest import Rest

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ACME = '[{"slug": "acme", "name": "Acme", "issuer": "https://acme.example", "client_id": "x"}]'


@pytest.fixture
def allowed(settings: Settings) -> None:
    configured(settings, invited_domains=ALLOWED)


@pytest.fixture
def closed(settings: Settings) -> None:
    """No passwords: people come in by their organisation."""
    closed = {"password_sign_in": "break-glass", "break_glass_user": "keeper", "oidc": ACME}
    configured(settings, **closed, invited_domains="example.org")


def acts(tenant: Tenant) -> list[str]:
    events = AuditEvent.objects.filter(chain=f"tenant:{tenant.slug}", target_kind="invitation")
    return list(events.order_by("sequence").values_list("action", flat=True))


def arrives(email: str, subject: str = "s-1", *, verified: bool = True) -> User:
    provider = flows.provider_of("acme")
    identity = Identity(provider.issuer, subject, "kim", "Kim", email, is_mail_verified=verified)
    return group_rights.arrive(Brought(provider, identity, "/", None), now=timezone.now())


def test_whoever_has_an_account_is_a_member_at_once(cast: Cast) -> None:
    has_mail(cast.otto, "Otto@bio.example")
    invited = invite(cast.leon, cast.vision, " otto@BIO.example ", Role.LEAD)
    assert (invited.row.status, invited.row.user, invited.link) == ("joined", cast.otto, "")
    assert role_of("Otto@bio.example", cast.vision) == "lead"
    again = invite(cast.leon, cast.vision, "otto@bio.example", Role.LEAD)
    assert again.row.pk == invited.row.pk
    assert acts(cast.vision) == ["invitation.join"]


@pytest.mark.usefixtures("allowed")
def test_whom_policy_allows_gets_an_account_by_a_link_that_is_shown_once(cast: Cast) -> None:
    User.objects.create_user("Kim")
    invited = invite(cast.leon, cast.vision)
    user = invited.row.user
    assert user is not None
    assert (user.username, user.email, user.platform_role, user.display_name) == ("kim-2", KIM, "", "")
    assert not user.has_usable_password()
    assert people.invited(invited.link, timezone.now()).user == user
    assert role_of(KIM, cast.vision) == "member"
    assert not Notice.objects.filter(kind__startswith="invitation.").exists()
    kept = [*Invitation.objects.values(), *AuditEvent.objects.values(), *MemberInvitation.objects.values()]
    assert invited.link not in str(kept)


@pytest.mark.usefixtures("allowed")
def test_who_made_the_account_by_policy_is_no_second_person_beside_it(cast: Cast) -> None:
    invited = invite(cast.leon, cast.vision)
    assert cast.leon.username in hands("kim", timezone.now())
    assert invited.row.asked_by == cast.leon


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    "email", ["kim@other.example", "kim@sub.lab.example", "kim@lab.example.evil.example"]
)
def test_a_domain_is_allowed_exactly_as_it_is_set(cast: Cast, email: str) -> None:
    assert invite(cast.leon, cast.vision, email).row.status == "open"
    assert not User.objects.filter(email=email).exists()


@pytest.mark.usefixtures("allowed")
def test_a_closed_account_is_not_told_to_the_lead_and_not_doubled(cast: Cast) -> None:
    User.objects.filter(pk=has_mail(cast.otto, KIM).pk).update(is_active=False)
    row = invite(cast.leon, cast.vision).row
    assert (row.status, row.user) == ("open", None)
    with pytest.raises(AlreadyExists, match="outsider"):
        approve(cast.petra, row)
    User.objects.filter(pk=cast.otto.pk).update(is_active=True)
    assert approve(cast.petra, row).row.user == cast.otto


def test_what_waits_is_told_to_engineers_and_its_decision_to_the_lead(cast: Cast) -> None:
    row = invite(cast.leon, cast.vision).row
    asked = Notice.objects.get(kind=Kind.INVITATION_ASKED)
    assert (asked.user, asked.url) == (cast.petra, f"/console/requests/invitations/{row.pk}/")
    invited = approve(cast.petra, row)
    assert people.invited(invited.link, timezone.now()).user == invited.row.user
    assert role_of(KIM, cast.vision) == "member"
    told = Notice.objects.get(kind=Kind.INVITATION_DECIDED)
    assert (told.user, told.message) == (cast.leon, f"platform approved the invitation of {KIM} to vision.")
    assert invited.link not in str(list(Notice.objects.values()))
    assert acts(cast.vision) == ["invitation.ask", "invitation.approve"]
    with pytest.raises(Conflict, match="joined already"):
        approve(cast.petra, row)


def test_asking_again_changes_the_role_of_what_waits(cast: Cast) -> None:
    first = invite(cast.leon, cast.vision).row
    again = invite(cast.leon, cast.vision, KIM.upper(), Role.LEAD).row
    invite(cast.leon, cast.vision, KIM, Role.LEAD)
    assert (again.pk, again.role, MemberInvitation.objects.count()) == (first.pk, "lead", 1)
    assert acts(cast.vision) == ["invitation.ask", "invitation.ask"]
    assert Notice.objects.filter(kind=Kind.INVITATION_ASKED).count() == 1
    approve(cast.petra, again)
    assert role_of(KIM, cast.vision) == "lead"


def test_an_account_that_came_meanwhile_is_made_a_member_and_not_doubled(cast: Cast) -> None:
    row = invite(cast.leon, cast.vision).row
    people.invite(actor=as_actor(cast.petra), wish=people.PersonWish("kim", "", KIM), now=timezone.now())
    invited = approve(cast.petra, row)
    assert (invited.row.status, invited.link) == ("joined", "")
    assert User.objects.filter(email=KIM).count() == 1
    assert role_of(KIM, cast.vision) == "member"


def test_a_decision_changes_no_role_that_somebody_gave_meanwhile(cast: Cast) -> None:
    row = invite(cast.leon, cast.vision).row
    has_mail(cast.rosa, KIM)
    tenancy.set_member(
        actor=as_actor(cast.leon), tenant=cast.vision, username="researcher", role=Role.LEAD,
        now=timezone.now(),
    )  # fmt: skip
    approve(cast.petra, row)
    assert role_of(KIM, cast.vision) == "lead"


def test_a_refusal_needs_a_reason_which_the_lead_reads(cast: Cast) -> None:
    row, now = invite(cast.leon, cast.vision).row, timezone.now()
    with pytest.raises(Invalid):
        inviting.decline(actor=as_actor(cast.petra), invitation=row, reason=" ", now=now)
    inviting.decline(actor=as_actor(cast.petra), invitation=row, reason="no contract", now=now)
    assert Notice.objects.get(kind=Kind.INVITATION_DECIDED).message.endswith("to vision: no contract")
    assert invite(cast.leon, cast.vision).row.pk != row.pk
    assert not User.objects.filter(email=KIM).exists()


def test_what_is_withdrawn_is_decided_by_nobody(cast: Cast) -> None:
    row, now = invite(cast.leon, cast.vision).row, timezone.now()
    inviting.withdraw(actor=as_actor(cast.leon), invitation=row, now=now)
    acted: list[Callable[[], object]] = [
        lambda: approve(cast.petra, row),
        lambda: inviting.decline(actor=as_actor(cast.petra), invitation=row, reason="x", now=now),
        lambda: inviting.withdraw(actor=as_actor(cast.leon), invitation=row, now=now),
    ]
    row.status = InvitationStatus.OPEN  # as somebody saw it before
    for act in acted:
        with pytest.raises(Conflict, match="withdrawn already"):
            act()
    assert acts(cast.vision)[-1] == "invitation.withdraw"
    assert not User.objects.filter(email=KIM).exists()


def test_a_team_has_so_many_waiting_and_no_more(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inviting, "MOST_PENDING", 2)
    rows = [invite(cast.leon, cast.vision, f"{name}@x.example").row for name in ("a", "b")]
    with pytest.raises(Conflict, match="2 invitations of vision wait"):
        invite(cast.leon, cast.vision)
    inviting.withdraw(actor=as_actor(cast.leon), invitation=rows[0], now=timezone.now())
    assert invite(cast.leon, cast.vision).row.status == "open"


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(("column", "words"), [("archived_at", "archived"), ("deleting_at", "being deleted")])
def test_a_tenant_that_takes_nobody_invites_nobody(cast: Cast, column: str, words: str) -> None:
    row = invite(cast.leon, cast.vision, "kim@other.example").row
    Tenant.objects.filter(pk=cast.vision.pk).update(**{column: timezone.now()})
    seen_now = Tenant.objects.get(pk=cast.vision.pk)
    for tenant in (cast.vision, seen_now):
        with pytest.raises(Conflict, match=words):
            invite(cast.leon, tenant)
    with pytest.raises(Conflict, match=words):
        approve(cast.petra, row)
    assert not User.objects.exclude(email="").exists()


def test_who_may_what(cast: Cast) -> None:
    leon, rosa, ann, otto = (Rest(each) for each in (cast.leon, cast.rosa, cast.ann, cast.otto))
    body = {"spec": {"email": KIM, "role": "member"}}
    path, flat = "/tenants/vision/invitations", "/invitations"
    assert [each.send("POST", path, body).status_code for each in (rosa, ann, otto)] == [403, 403, 404]
    one = f"/invitations/{leon.send('POST', path, body).json()['id']}"
    assert [len(each.get(flat).json()["items"]) for each in (leon, ann, rosa, otto)] == [1, 1, 0, 0]
    assert [len(each.get(path).json()["items"]) for each in (leon, ann, rosa)] == [1, 1, 0]
    assert [each.get(one).status_code for each in (leon, ann, rosa, otto)] == [200, 200, 404, 404]
    assert [each.send("POST", f"{one}/approve", {}).status_code for each in (leon, ann)] == [403, 403]
    assert leon.get(f"{flat}?phase=Joined").json()["items"] == []
    cut = Rest(cast.petra, tenants=("vision",))
    assert cut.send("POST", f"{one}/approve", {}).status_code == 403
    assert Rest(cast.leon, scopes=("tenants:write",)).send("POST", f"{one}/withdraw").status_code == 403
    assert leon.send("POST", f"{one}/withdraw").json()["status"]["phase"] == "Withdrawn"


@pytest.mark.parametrize("email", ["nobody", "a b@x.example", f"{'a' * 250}@x.example", ""])
def test_what_is_no_address_names_its_field(cast: Cast, email: str) -> None:
    answer = Rest(cast.leon).send("POST", "/tenants/vision/invitations", {"spec": {"email": email}})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/spec/email")


def test_the_link_is_in_one_answer_alone(cast: Cast) -> None:
    row, petra = invite(cast.leon, cast.vision).row, Rest(cast.petra)
    first, again = (petra.send("POST", f"/invitations/{row.pk}/approve", {}, key="k") for _ in range(2))
    assert "/invite/" in first.json()["link"]
    assert again.json() == first.json() | {"link": None}
    body = {"spec": {"email": "lee@x.example"}}
    made, replayed = (petra.send("POST", "/tenants/vision/invitations", body, key="m") for _ in range(2))
    assert made.json()["status"]["phase"] == "Joined", "an engineer asks nobody"
    assert ("/invite/" in made.json()["link"], replayed.json()["link"]) == (True, None)
    assert "link" not in Rest(cast.leon).get(f"/invitations/{row.pk}").json()


@pytest.mark.usefixtures("closed")
class TestWithoutPasswords:
    """People come in by their organisation: what was agreed waits for the sign-in that proves the address."""

    def test_what_policy_allows_takes_effect_with_the_first_sign_in(self, cast: Cast) -> None:
        invited = invite(cast.leon, cast.vision, "kim@example.org", Role.LEAD)
        assert (invited.row.status, invited.link) == ("approved", "")
        assert not User.objects.filter(email="kim@example.org").exists()
        kim = arrives("Kim@Example.org")
        assert role_of("Kim@Example.org", cast.vision) == "lead"
        row = MemberInvitation.objects.get()
        assert (row.status, row.user) == ("joined", kim)
        assert acts(cast.vision) == ["invitation.ask", "invitation.join"]
        tenancy.remove_member(
            actor=as_actor(cast.leon), tenant=cast.vision, username="kim", now=timezone.now()
        )
        arrives("Kim@Example.org")
        assert role_of("Kim@Example.org", cast.vision) == "", "it is used up"

    def test_an_engineer_agrees_to_the_others(self, cast: Cast) -> None:
        row = invite(cast.leon, cast.vision).row
        arrives(KIM, "s-0")
        assert role_of(KIM, cast.vision) == "", "nobody has decided yet"
        assert approve(cast.petra, row).row.status == "joined"
        other = approve(cast.petra, invite(cast.leon, cast.vision, "lee@x.example").row)
        assert (other.row.status, other.link) == ("approved", "")
        arrives("lee@x.example")
        assert role_of("lee@x.example", cast.vision) == "member"

    def test_an_address_that_nobody_verified_opens_nothing(self, cast: Cast) -> None:
        invite(cast.leon, cast.vision, "kim@example.org")
        arrives("kim@example.org", verified=False)
        assert not Membership.objects.filter(user__username="kim").exists()
        assert MemberInvitation.objects.get().status == "approved"

    def test_a_tenant_that_takes_nobody_keeps_nobody_out_of_the_product(self, cast: Cast) -> None:
        for tenant, lead in ((cast.vision, cast.leon), (cast.speech, cast.petra)):
            invite(lead, tenant, "kim@example.org")
        Tenant.objects.filter(pk=cast.speech.pk).update(archived_at=timezone.now())
        kim = arrives("kim@example.org")
        assert list(kim.memberships.values_list("tenant__slug", flat=True)) == ["vision"]
        Tenant.objects.filter(pk=cast.speech.pk).update(archived_at=None)
        arrives("kim@example.org")
        assert kim.memberships.count() == 2
        assert ExternalIdentity.objects.count() == 1

    def test_what_was_withdrawn_opens_nothing(self, cast: Cast) -> None:
        row = invite(cast.leon, cast.vision, "kim@example.org").row
        inviting.withdraw(actor=as_actor(cast.leon), invitation=row, now=timezone.now())
        assert not arrives("kim@example.org").memberships.exists()


def test_a_manager_of_the_department_invites_but_does_not_decide(cast: Cast) -> None:
    cast.vision.department.managers.create(user=cast.otto)
    row = invite(cast.otto, cast.vision).row
    with pytest.raises(NotAllowed):
        approve(cast.otto, row)
