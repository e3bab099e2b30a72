"""Rights by groups: what a sign-in gives, what it takes back, what people gave by hand, and the dry run."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import ApiToken, ExternalIdentity, User
from apps.accounts.specs import PlatformRole
from apps.audit.models import AuditEvent
from apps.errors import AlreadyExists, Invalid, NotAllowed
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import GroupRule, Membership, RuleGrant
from apps.tenants.people.rules.group_rights import Gift, Key, Rule, outcomes
from apps.tenants.people.selectors import group_rules
from apps.tenants.people.services import group_rights
from apps.tenants.people.services import group_rules as keeping
from apps.tenants.people.services.group_rules import RuleWish
from apps.tenants.specs import RightKind, Role
from apps.web.problems.refusals import InsufficientScope
from tests.conftest import Cast, as_actor, client_of
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
TENANT, DEPARTMENT, PLATFORM = RightKind.TENANT, RightKind.DEPARTMENT, RightKind.PLATFORM


@pytest.fixture(autouse=True)
def _acme(settings: Settings) -> None:
    said = [{"slug": "acme", "name": "Acme", "issuer": "https://acme.example", "client_id": "x"}]
    settings.CONFIG = django_settings.CONFIG.model_copy(update={"oidc": json.dumps(said)})


def rule(cast: Cast, group: str, kind: str, target: str, role: str) -> GroupRule:
    wish = RuleWish("acme", group, kind, target, role)
    return keeping.make_rule(actor=as_actor(cast.petra), wish=wish, now=timezone.now())


def arrives(user: User, *groups: str) -> list[Any]:
    return group_rights.apply(user, provider="acme", groups=groups, now=timezone.now())


def role_in(user: User, slug: str) -> str:
    return (
        Membership.objects.filter(user=user, tenant__slug=slug).values_list("role", flat=True).first() or ""
    )


@pytest.fixture
def nina(db: None) -> User:
    return make_user("nina")


def test_groups_give_tenants_departments_and_roles(cast: Cast, nina: User) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    rule(cast, "leads", TENANT, "vision", "lead")
    rule(cast, "heads", DEPARTMENT, "research", "manager")
    rule(cast, "ops", PLATFORM, "", "platform")
    before = cast.vision.generation
    arrives(nina, "vision", "leads", "heads", "ops", "unknown")
    nina.refresh_from_db()
    cast.vision.refresh_from_db()
    assert role_in(nina, "vision") == "lead"
    assert nina.managed_departments.get().department.slug == "research"
    assert nina.platform_role == PlatformRole.PLATFORM
    assert cast.vision.generation > before
    made = AuditEvent.objects.filter(actor="system:group-rules").values_list("action", flat=True)
    assert sorted(made) == ["department.update", "member.set", "user.update"]


def test_the_same_sign_in_again_changes_nothing(cast: Cast, nina: User) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    arrives(nina, "vision")
    events = AuditEvent.objects.count()
    arrives(nina, "vision")
    assert AuditEvent.objects.count() == events


def test_what_a_rule_gives_no_longer_is_taken_back(cast: Cast, nina: User) -> None:
    kept = rule(cast, "vision", TENANT, "vision", "lead")
    rule(cast, "heads", DEPARTMENT, "research", "manager")
    rule(cast, "ops", PLATFORM, "", "auditor")
    arrives(nina, "vision", "heads", "ops")
    arrives(nina, "vision")
    nina.refresh_from_db()
    assert (role_in(nina, "vision"), nina.platform_role) == ("lead", "")
    assert not nina.managed_departments.exists()
    keeping.remove_rule(actor=as_actor(cast.petra), rule=kept, now=timezone.now())
    assert role_in(nina, "vision") == "lead"
    arrives(nina, "vision")
    assert role_in(nina, "vision") == ""
    assert not RuleGrant.objects.exists()


def test_what_was_given_by_hand_stays(cast: Cast) -> None:
    """Rosa is a member by hand; a rule makes her lead, and without it she is a member again."""
    rule(cast, "leads", TENANT, "vision", "lead")
    arrives(cast.rosa, "leads")
    assert role_in(cast.rosa, "vision") == "lead"
    arrives(cast.rosa)
    assert role_in(cast.rosa, "vision") == "member"
    arrives(cast.leon)
    assert role_in(cast.leon, "vision") == "lead"


def test_a_rule_lowers_nobody(cast: Cast) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    rule(cast, "audit", PLATFORM, "", "auditor")
    arrives(cast.leon, "vision")
    arrives(cast.petra, "audit")
    cast.petra.refresh_from_db()
    assert role_in(cast.leon, "vision") == "lead"
    assert cast.petra.platform_role == PlatformRole.PLATFORM
    arrives(cast.petra)
    cast.petra.refresh_from_db()
    assert cast.petra.platform_role == PlatformRole.PLATFORM


def test_who_confirms_it_by_hand_keeps_it_from_the_rules(cast: Cast, nina: User) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    arrives(nina, "vision")
    tenancy.set_member(
        actor=as_actor(cast.leon), tenant=cast.vision, username="nina", role=Role.MEMBER, now=timezone.now()
    )
    arrives(nina)
    assert role_in(nina, "vision") == "member"


def test_an_archived_tenant_is_left_as_it_is(cast: Cast, nina: User) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    rule(cast, "speech", TENANT, "speech", "member")
    arrives(nina, "vision")
    for row in (cast.vision, cast.speech):
        row.archived_at = timezone.now()
        row.save()
    arrives(nina, "speech")
    assert (role_in(nina, "vision"), role_in(nina, "speech")) == ("member", "")


def test_groups_of_another_provider_give_nothing(cast: Cast, nina: User) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    group_rights.apply(nina, provider="other", groups=("vision",), now=timezone.now())
    assert role_in(nina, "vision") == ""


WRONG = [
    (RuleWish("nowhere", "g", "tenant", "vision", "member"), "/provider"),
    (RuleWish("acme", " ", "tenant", "vision", "member"), "/group"),
    (RuleWish("acme", "g" * 256, "tenant", "vision", "member"), "/group"),
    (RuleWish("acme", "g", "galaxy", "", "member"), "/kind"),
    (RuleWish("acme", "g", "tenant", "vision", "manager"), "/role"),
    (RuleWish("acme", "g", "tenant", "nowhere", "member"), "/target"),
    (RuleWish("acme", "g", "department", "vision", "manager"), "/target"),
    (RuleWish("acme", "g", "platform", "vision", "auditor"), "/target"),
    (RuleWish("acme", "g", "platform", "", "lead"), "/role"),
]


@pytest.mark.parametrize(("wish", "where"), WRONG)
def test_a_wrong_rule_is_refused_where_it_is_wrong(wish: RuleWish, where: str, cast: Cast) -> None:
    with pytest.raises(Invalid) as refused:
        keeping.make_rule(actor=as_actor(cast.petra), wish=wish, now=timezone.now())
    assert [problem.pointer for problem in refused.value.problems] == [where]


def test_only_platform_engineers_make_rules_and_none_twice(cast: Cast) -> None:
    wish = RuleWish("acme", "g", "tenant", "vision", "member")
    for user in (cast.leon, cast.ann, cast.rosa):
        with pytest.raises(NotAllowed):
            keeping.make_rule(actor=as_actor(user), wish=wish, now=timezone.now())
    rule(cast, "g", TENANT, "vision", "member")
    with pytest.raises(AlreadyExists):
        rule(cast, "g", TENANT, "vision", "lead")


def test_a_cut_token_gives_no_right_over_the_installation(cast: Cast) -> None:
    petra = client_of(cast.petra)
    asked = {"name": "t", "scopes": ["people:write"]}
    text = petra.post("/api/v1/tokens", asked, content_type="application/json").json()["token"]
    body = {"provider": "acme", "group": "ops", "kind": "platform", "role": "platform"}
    answer = petra.post(
        "/api/v1/group-rules",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {text}"},
    )
    assert answer.status_code == 403
    assert ApiToken.objects.exists()
    assert not GroupRule.objects.exists()


def test_a_token_that_could_name_no_manager_makes_no_rule_that_does(cast: Cast) -> None:
    wish = RuleWish("acme", "heads", "department", "research", "manager")
    cut = replace(as_actor(cast.petra), scopes=frozenset({"people:write"}))
    with pytest.raises(InsufficientScope):
        keeping.make_rule(actor=cut, wish=wish, now=timezone.now())
    both = replace(cut, scopes=frozenset({"people:write", "tenants:write"}))
    row = keeping.make_rule(actor=both, wish=wish, now=timezone.now())
    with pytest.raises(InsufficientScope):
        keeping.remove_rule(actor=cut, rule=row, now=timezone.now())


def test_the_dry_run_says_what_the_next_sign_in_does_and_changes_nothing(cast: Cast) -> None:
    rule(cast, "leads", TENANT, "vision", "lead")
    rule(cast, "speech", TENANT, "speech", "member")
    arrives(cast.rosa, "speech")
    now = timezone.now()
    ExternalIdentity.objects.create(
        user=cast.rosa, provider="acme", issuer="https://acme.example", subject="r", groups=["leads"],
        created_at=now, used_at=now,
    )  # fmt: skip
    ann = client_of(cast.ann)
    body = {"provider": "acme", "username": "researcher"}
    told = ann.post("/api/v1/group-rules/effect", body, content_type="application/json").json()
    assert told["groups"] == ["leads"]
    assert [(each["target"], each["role_now"], each["role_after"]) for each in told["rights"]] == [
        ("speech", "member", None),
        ("vision", "member", "lead"),
    ]
    page = ann.get("/console/sign-in/", {"of": "acme", "username": "researcher"}).content.decode()
    assert "no rule gives it any more" in page
    assert role_in(cast.rosa, "vision") == "member"
    made = arrives(cast.rosa, "leads")
    assert [(each.target, each.now or None, each.after or None) for each in made] == [
        (each["target"], each["role_now"], each["role_after"]) for each in told["rights"]
    ]


def test_the_page_makes_and_removes_a_rule(cast: Cast) -> None:
    petra = client_of(cast.petra)
    typed = {"provider": "acme", "group": "CN=a,OU=b", "right": "tenant:lead", "target": "vision"}
    assert petra.post("/console/sign-in/", typed).status_code == 303
    row = GroupRule.objects.get()
    assert (row.group, row.role) == ("CN=a,OU=b", "lead")
    assert "CN=a,OU=b" in petra.get("/console/sign-in/").content.decode()
    assert petra.post(f"/console/sign-in/rules/{row.pk}/remove/").status_code == 303
    assert not GroupRule.objects.exists()


@pytest.mark.parametrize("by_hand", ["", "member", "lead"])
@pytest.mark.parametrize("first", ["", "member", "lead"])
@pytest.mark.parametrize("then", ["", "member", "lead"])
def test_after_any_two_sign_ins_the_role_is_the_higher_of_hand_and_rule(
    by_hand: str, first: str, then: str
) -> None:
    """The whole rule, over every pair of sign-ins."""
    key = (TENANT, "t")
    held: dict[Key, str] = {}
    gifts: dict[Key, Gift] = {}
    if by_hand:
        held[key] = by_hand
    for wanted in (first, then):
        rules: Iterable[Rule] = [Rule("g", TENANT, "t", wanted)] if wanted else []
        for outcome in outcomes(rules, ["g"], held=held, gifts=gifts):
            held[key] = outcome.after
            gifts = {key: outcome.gift} if isinstance(outcome.gift, Gift) else {}
        assert held.get(key, "") == max(by_hand, wanted, key=["", "member", "lead"].index)


def test_the_dry_run_is_of_a_new_person_without_a_name(cast: Cast) -> None:
    rule(cast, "vision", TENANT, "vision", "member")
    (only,) = group_rules.effect("acme", ["vision"], None)
    assert (only.now, only.after, only.why) == ("", "member", "by vision")
