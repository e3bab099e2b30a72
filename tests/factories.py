"""Rows for tests, made plainly: each function makes one thing and says what it takes by default."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from apps.accounts.models import User
from apps.accounts.specs import Actor, PlatformRole
from apps.accounts.tokens import digest
from apps.cluster.models import Cluster, Drift, DriftCheck
from apps.cluster.objects import names
from apps.quotas.models import Flavor, Offer, Price, Quota
from apps.quotas.specs import Mechanism, SharingMode
from apps.tenants.lifecycle.services import deletion
from apps.tenants.models import Department, Membership, Tenant
from apps.tenants.specs import Role, TenantPhase, TrustLevel
from apps.workloads.images.rules import references
from apps.workloads.models import Image, Workload
from apps.workloads.specs import Kind
from apps.workloads.template_models import Template
from apps.workloads.templates.rules import reading
from apps.workloads.templates.services.keeping import Entry, add_template
from apps.workloads.token_models import ServiceToken

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
GIB = 1024**3


def make_user(username: str, *, platform_role: str = "", password: str | None = None) -> User:
    return User.objects.create_user(username, password=password, platform_role=platform_role)


def make_cluster(slug: str = "north") -> Cluster:
    return Cluster.objects.create(slug=slug, name=slug.title(), kubeconfig_path="", phase=Cluster.Phase.READY)


def make_department(cluster: Cluster, slug: str) -> Department:
    row_id = uuid4()
    return Department.objects.create(
        id=row_id, cluster=cluster, slug=slug, name=slug.title(), object_name=names.object_name(slug, row_id)
    )


def make_tenant(department: Department, slug: str, *, trust: TrustLevel = TrustLevel.STANDARD) -> Tenant:
    row_id = uuid4()
    return Tenant.objects.create(
        id=row_id,
        cluster=department.cluster,
        department=department,
        slug=slug,
        name=slug.title(),
        object_name=names.object_name(slug, row_id),
        trust_level=trust,
        phase=TenantPhase.READY,
    )


def join(tenant: Tenant, user: User, role: Role = Role.MEMBER) -> Membership:
    return Membership.objects.create(tenant=tenant, user=user, role=role)


def make_flavor(cluster: Cluster, slug: str = "h100", model: str = "NVIDIA H100 80GB HBM3") -> Flavor:
    return Flavor.objects.create(
        cluster=cluster,
        slug=slug,
        name=slug.upper(),
        object_name=slug,
        model=model,
        node_labels={"nvidia.com/gpu.product": model.replace(" ", "-")},
    )


def make_offer(
    flavor: Flavor, slug: str = "h100-1g-10gb", *, profile: str = "1g.10gb", hourly: str = "0.42"
) -> Offer:
    """A MIG slice of 1/7, or a whole GPU when `profile` is empty; priced since the day before NOW."""
    offer = Offer.objects.create(
        cluster=flavor.cluster,
        slug=slug,
        name=f"{flavor.name} {profile or 'whole'}",
        object_name=slug,
        resource_name=f"allotment.dev/{slug}",
        flavor=flavor,
        sharing_mode=SharingMode.MIG if profile else SharingMode.EXCLUSIVE,
        profile=profile,
        gpu_memory_bytes=10 * GIB if profile else 80 * GIB,
        share_numerator=1,
        share_denominator=7 if profile else 1,
        cpu_millis=4000,
        memory_bytes=32 * GIB,
    )
    Price.objects.create(
        offer=offer, hourly=Decimal(hourly), currency="EUR", valid_from=NOW - timedelta(days=1)
    )
    return offer


def make_cores(cluster: Cluster, slug: str = "cpu-cores", *, hourly: str = "0.05") -> Offer:
    """Cores of nodes without a GPU, each with 4 GiB; priced since the day before NOW."""
    flavor = Flavor.objects.create(
        cluster=cluster, slug=f"of-{slug}", name="CPU", object_name=f"of-{slug}", node_labels={"pool": slug}
    )
    offer = Offer.objects.create(
        cluster=cluster,
        slug=slug,
        name="CPU cores",
        object_name=slug,
        resource_name=f"cpu/{flavor.object_name}",
        flavor=flavor,
        sharing_mode=SharingMode.NO_DEVICE,
        mechanism=Mechanism.NODE,
        gpu_memory_bytes=0,
        share_numerator=0,
        cpu_millis=1000,
        memory_bytes=4 * GIB,
    )
    Price.objects.create(
        offer=offer, hourly=Decimal(hourly), currency="EUR", valid_from=NOW - timedelta(days=1)
    )
    return offer


def make_quota(
    tenant: Tenant, offer: Offer, *, nominal: int = 2, borrow: int | None = 0, lend: int | None = None
) -> Quota:
    return Quota.objects.create(
        tenant=tenant, offer=offer, nominal_quota=nominal, borrowing_limit=borrow, lending_limit=lend
    )


def notebook_body(offer: str = "h100-1g-10gb", **spec: Any) -> dict[str, Any]:
    """The `spec` of a notebook as REST takes it."""
    return {
        "kind": "notebook",
        "offer": offer,
        "image": "jupyter/pytorch:1",
        "memory": "16Gi",
        "cpu": "2",
        **spec,
    }


def make_workload(
    tenant: Tenant, owner: User, offer: Offer, *, slug: str = "nb-ada", spec: Mapping[str, Any] | None = None
) -> Workload:
    """A stored workload nobody has reconciled yet; a notebook unless `spec` says otherwise."""
    row_id = uuid4()
    return Workload.objects.create(
        id=row_id,
        cluster=tenant.cluster,
        tenant=tenant,
        owner=owner,
        slug=slug,
        name=slug,
        kind=(spec or {}).get("kind", Kind.NOTEBOOK),
        offer=offer,
        spec=dict(spec or notebook_body(offer.slug)),
        object_name=names.object_name(slug, row_id),
    )


def make_image(slug: str, reference: str, *, cuda: str = "", for_all: bool = False) -> Image:
    """An image of the catalogue for notebooks and jobs; unless it is for all, nobody may use it yet."""
    return Image.objects.create(
        slug=slug,
        name=slug.capitalize(),
        reference=reference,
        full_reference=references.full(reference),
        cuda_version=cuda,
        kinds=[str(kind) for kind in Kind],
        is_for_all=for_all,
        created_by="petra",
    )


def make_template(slug: str, *, image: str = "jupyter/pytorch:1", for_all: bool = False) -> Template:
    """A template of a notebook: its offer, and hours; unless it is for all, nobody may use it yet."""
    hours = {"name": "hours", "type": "integer", "unit": "hours", "minimum": 1, "maximum": 24, "default": 8}
    workload = {"kind": "notebook", "offer": "{{offer}}", "image": image, "max_run_seconds": "{{hours}}"}
    definition = reading.definition_of([{"name": "offer", "format": "offer"}, hours], workload)
    everybody = Entry(slug.capitalize())
    keeper = Actor("petra", platform_role=PlatformRole.PLATFORM)
    row = add_template(
        actor=keeper, slug=slug, entry=everybody, definition=definition, notes="The first.", now=NOW
    )
    Template.objects.filter(pk=row.pk).update(is_for_all=for_all)
    row.refresh_from_db()
    return row


def make_service_token(row: Workload, now: datetime) -> None:
    """A token of a service, made by its owner; its text is nowhere."""
    kept = digest(row.slug)
    ServiceToken.objects.create(
        workload=row, name="ci", made_by=row.owner, prefix="alt_0a1B2c3D", digest=kept, created_at=now
    )


def make_drift(row: Workload, now: datetime) -> None:
    """Somebody edits the service of a workload again and again; and its cluster was compared."""
    field = {
        "path": 'spec.ports[port=8888,protocol="TCP"].targetPort', "ours": "8888", "theirs": "22",
        "manager": "kubectl-edit", "operation": "Update", "at": "2026-11-26T03:00:00Z",
    }  # fmt: skip
    Drift.objects.create(
        cluster=row.cluster, kind="Service", namespace=row.tenant.object_name, name=row.object_name,
        owner_kind="workload", owner_id=str(row.pk), tenant=row.tenant.slug, how="changed", fields=[field],
        times=4, found_at=now, seen_at=now, message="kubectl-edit keeps changing fields that Allotment owns.",
    )  # fmt: skip
    DriftCheck.objects.create(
        cluster=row.cluster, tried_at=now, ended_at=now, done=18, of=18, objects_seen=40
    )


def begin_deletion(tenant: Tenant, *, now: datetime) -> None:
    """Two platform engineers agreed long ago; now the grace is over."""
    asker, other = (Actor(name, platform_role=PlatformRole.PLATFORM) for name in ("asker", "approver"))
    long_ago = now - timedelta(days=30)
    deletion.ask_deletion(actor=asker, tenant=tenant, now=long_ago)
    deletion.approve_deletion(actor=other, tenant=tenant, now=long_ago)
    deletion.begin_due(now=now)
