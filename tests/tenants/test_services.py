"""What people do with departments, tenants and members, and who may."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.errors import AlreadyExists, DomainError, Invalid, NotAllowed, NotFound
from apps.tenants import selectors
from apps.tenants.lifecycle.services import deletion, making, tenancy
from apps.tenants.lifecycle.services.making import TenantWish
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Membership, Tenant
from apps.tenants.specs import Role, Suspend, TenantPhase, TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_department

pytestmark = pytest.mark.both_databases


def create(cast: Cast, slug: str, name: str = "Robotics", actor: Actor | None = None) -> Tenant:
    return tenancy.create_tenant(
        actor=actor or as_actor(cast.petra),
        slug=slug,
        name=name,
        department=cast.vision.department,
        trust_level=TrustLevel.STANDARD,
        now=NOW,
    )


def test_a_new_tenant_has_a_name_for_the_cluster_and_is_in_its_own_audit_chain(cast: Cast) -> None:
    tenant = create(cast, "robotics")
    assert tenant.object_name.startswith("robotics-")
    assert (tenant.generation, tenant.observed_generation, tenant.phase) == (1, 0, TenantPhase.PENDING)
    assert AuditEvent.objects.get(target_id=str(tenant.pk)).chain == "tenant:robotics"


def test_a_tenant_is_made_on_its_department_s_cluster_whoever_asks(cast: Cast) -> None:
    department, petra = cast.vision.department, as_actor(cast.petra)
    wish = TenantWish(department, slug="robotics", clusters=["south"], suspend=Suspend.HOLD)
    with pytest.raises(Invalid) as refused:
        making.create_tenant(actor=petra, wish=wish, now=NOW)
    assert refused.value.problems[0].pointer == "/spec/clusters"
    assert not Tenant.objects.filter(slug="robotics").exists()
    right = replace(wish, clusters=[department.cluster.slug])
    tenant = making.create_tenant(actor=petra, wish=right, now=NOW)
    assert (tenant.cluster, tenant.suspend, tenant.name) == (department.cluster, Suspend.HOLD, "robotics")


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Robotics", "robotics"),
        ("Vision", "vision-2"),
        ("Kube Ops", "team-kube-ops-2"),
        ("3D Lab", "x-3d-lab"),
    ],
)
def test_an_omitted_slug_is_made_of_the_name(cast: Cast, name: str, slug: str) -> None:
    assert create(cast, "", name).slug == slug


@pytest.mark.parametrize(
    ("slug", "code"),
    [
        ("default", "reserved_name"),
        ("kube-system", "reserved_name"),
        ("allotment-access", "reserved_name"),
        ("Vision", "invalid_value"),
        ("-x", "invalid_value"),
        ("x-", "invalid_value"),
        ("a" * 41, "invalid_value"),
        ("a\n", "invalid_value"),
        ("x/../y", "invalid_value"),
        ("vïsion", "invalid_value"),
    ],
)
def test_a_slug_that_the_cluster_could_misread_is_refused(cast: Cast, slug: str, code: str) -> None:
    with pytest.raises(Invalid) as refusal:
        create(cast, slug)
    assert [(p.pointer, p.code) for p in refusal.value.problems] == [("/slug", code)]


def test_a_slug_is_never_used_again_not_even_after_deletion(cast: Cast) -> None:
    Tenant.objects.filter(pk=cast.genomics.pk).update(deleted_at=NOW)
    with pytest.raises(AlreadyExists):
        create(cast, "genomics")


def test_only_platform_engineers_make_tenants(cast: Cast) -> None:
    for user in (cast.leon, cast.rosa, cast.ann, cast.otto):
        with pytest.raises(NotAllowed, match="platform engineer"):
            create(cast, "robotics", actor=as_actor(user))
    assert not Tenant.objects.filter(slug="robotics").exists()


def test_a_token_cut_to_some_tenants_makes_no_new_one(cast: Cast) -> None:
    cut = Actor(
        username="platform", user_id=cast.petra.id, platform_role="platform", tenants=frozenset({"vision"})
    )
    with pytest.raises(NotAllowed):
        create(cast, "robotics", actor=cut)
    assert [tenant.slug for tenant in selectors.tenants_for(cut)] == ["vision"]


def test_a_change_counts_one_generation_and_the_same_again_none(cast: Cast) -> None:
    change = TenantChange(suspend=Suspend.HOLD)
    for _ in range(2):
        tenancy.update_tenant(actor=as_actor(cast.petra), tenant=cast.vision, change=change, now=NOW)
    cast.vision.refresh_from_db()
    assert (cast.vision.generation, cast.vision.suspend) == (2, Suspend.HOLD)
    (event,) = AuditEvent.objects.filter(target_id=str(cast.vision.pk))
    assert event.changes == {"suspend": ["none", "hold"]}


def test_a_lead_decides_on_members_and_a_member_does_not(cast: Cast, cluster: Cluster) -> None:
    tenancy.set_member(
        actor=as_actor(cast.leon), tenant=cast.vision, username="auditor", role=Role.MEMBER, now=NOW
    )
    assert Membership.objects.filter(tenant=cast.vision, user=cast.ann, role=Role.MEMBER).exists()
    with pytest.raises(NotAllowed, match="lead of vision"):
        tenancy.set_member(
            actor=as_actor(cast.rosa), tenant=cast.vision, username="auditor", role=Role.LEAD, now=NOW
        )


def test_an_unknown_person_is_a_wrong_field(cast: Cast) -> None:
    with pytest.raises(Invalid) as refusal:
        tenancy.set_member(
            actor=as_actor(cast.leon), tenant=cast.vision, username="nobody", role=Role.MEMBER, now=NOW
        )
    assert refusal.value.problems[0].code == "reference_not_found"


def test_a_member_may_leave_but_not_remove_another(cast: Cast) -> None:
    with pytest.raises(NotAllowed):
        tenancy.remove_member(actor=as_actor(cast.rosa), tenant=cast.vision, username="lead", now=NOW)
    tenancy.remove_member(actor=as_actor(cast.rosa), tenant=cast.vision, username="researcher", now=NOW)
    assert [m.user.username for m in selectors.members_of(cast.vision)] == ["lead"]
    with pytest.raises(NotFound):
        tenancy.remove_member(actor=as_actor(cast.leon), tenant=cast.vision, username="researcher", now=NOW)


def test_every_change_of_members_makes_the_reconcile_look_again(cast: Cast) -> None:
    leon = as_actor(cast.leon)
    tenancy.set_member(actor=leon, tenant=cast.vision, username="auditor", role=Role.MEMBER, now=NOW)
    tenancy.set_member(actor=leon, tenant=cast.vision, username="auditor", role=Role.MEMBER, now=NOW)
    tenancy.remove_member(actor=leon, tenant=cast.vision, username="auditor", now=NOW)
    cast.vision.refresh_from_db()
    assert cast.vision.generation == 3


@pytest.mark.parametrize(
    "act",
    [
        lambda tenant, actor: tenancy.update_tenant(
            actor=actor, tenant=tenant, change=TenantChange(name="x"), now=NOW
        ),
        lambda tenant, actor: deletion.ask_deletion(actor=actor, tenant=tenant, now=NOW),
        lambda tenant, actor: deletion.approve_deletion(actor=actor, tenant=tenant, now=NOW),
        lambda tenant, actor: deletion.archive_tenant(actor=actor, tenant=tenant, reason="", now=NOW),
        lambda tenant, actor: tenancy.set_member(
            actor=actor, tenant=tenant, username="outsider", role=Role.LEAD, now=NOW
        ),
    ],
)
def test_an_outsider_changes_nothing(cast: Cast, act: Callable[[Tenant, Actor], object]) -> None:
    before = AuditEvent.objects.count()
    for user in (cast.otto, cast.ann):
        with pytest.raises(DomainError) as refusal:
            act(cast.vision, as_actor(user))
        assert refusal.value.status == 403
    assert AuditEvent.objects.count() == before


def test_each_sees_exactly_the_own_tenants(cast: Cast, cluster: Cluster) -> None:
    make_department(cluster, "empty")

    def seen(user: User) -> list[str]:
        return sorted(tenant.slug for tenant in selectors.tenants_for(as_actor(user)))

    assert seen(cast.rosa) == ["vision"]
    assert seen(cast.otto) == ["genomics"]
    assert seen(cast.petra) == seen(cast.ann) == ["genomics", "speech", "vision"]
    assert [d.slug for d in selectors.departments_for(as_actor(cast.rosa))] == ["research"]
    assert selectors.departments_for(as_actor(cast.ann)).count() == 3


def test_a_tenant_at_hand_is_seen_by_whom_it_is_listed_for(cast: Cast) -> None:
    cast.speech.deleted_at = NOW
    cast.speech.save()
    people = [as_actor(user) for user in (cast.rosa, cast.leon, cast.petra, cast.ann, cast.otto)]
    cuts = [replace(who, tenants=frozenset(cut)) for who in people for cut in ((), ("vision",), ("speech",))]
    for actor in (*people, *cuts):
        listed = set(selectors.tenants_for(actor))
        assert {t for t in (cast.vision, cast.speech, cast.genomics) if selectors.sees(actor, t)} == listed


def test_the_invisible_and_the_unknown_are_refused_alike(cast: Cast) -> None:
    refusals = []
    for key in ("genomics", str(cast.genomics.pk), "no-such-tenant", "8c1f9a52-0000-4000-8000-000000000000"):
        with pytest.raises(NotFound) as refusal:
            selectors.tenant_for(as_actor(cast.rosa), key)
        refusals.append(refusal.value.detail)
    assert len(set(refusals)) == 1


def test_the_spec_names_an_account_per_active_member_that_no_renaming_changes(cast: Cast) -> None:
    before = selectors.tenant_spec(cast.vision).members
    cast.rosa.username = "rosa"
    cast.rosa.save()
    assert {m.account for m in before} == {m.account for m in selectors.tenant_spec(cast.vision).members}
    assert sorted(str(m.role) for m in before) == ["lead", "member"]
    cast.rosa.is_active = False
    cast.rosa.save()
    assert len(selectors.tenant_spec(cast.vision).members) == 1
