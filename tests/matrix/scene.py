"""Two tenants of two departments on two clusters, alike in everything, and everybody who may come asking.

Rows are made once for a whole module (`open_scene` rolls them back); each request is undone by itself. Each
role has a home side; the other side is what it must never learn of, unless it sees everything.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import transaction
from django.test import Client, override_settings
from django.utils import timezone

from apps.accounts.actors import SIGNED_IN
from apps.accounts.models import ApiToken, Passkey, PersonSession, User
from apps.accounts.services import TokenWish, create_token, revoke_token
from apps.accounts.specs import PlatformRole, ScopeGroup
from apps.cluster.mirror.selectors.inventory import gpus_for
from apps.cluster.models import Drift
from apps.metering.models import Allocation, Finding, Statement
from apps.metering.specs import Formula
from apps.notices.models import Notice
from apps.quotas.models import Budget, Grant, Offer, Price, QuotaRequest, TenantQueue
from apps.tenants.models import DepartmentManager, GroupRule, MemberInvitation, ServiceAccount, Tenant
from apps.tenants.people.services import registries, service_accounts
from apps.tenants.specs import RegistryLogin, Role
from apps.workloads.models import Image, Workload
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.services import keeping
from apps.workloads.template_models import Template
from tests import factories
from tests.accounts import ssh_lines
from tests.conftest import as_actor
from tests.matrix import runs
from tests.pages import fleet

NO_REDIS = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
ACME = '[{"slug": "acme", "name": "Acme", "issuer": "https://sign-in.example", "client_id": "allotment"}]'
NOBODY = ("anonymous", "expired", "revoked")
WATCHERS = ("auditor", "platform")
ROLES = (*NOBODY, "reader", "member", "lead", "manager", "stranger", *WATCHERS)

Place = dict[str, str]


@dataclass(frozen=True)
class Side:
    """One tenant with its people and things: `owner` runs `own`, `lead` runs `mate`; `spare` has no quota.

    `manager` looks after its department and is a member of nothing. `neighbour` is another tenant there, with
    nobody and nothing in it: quota moves to it.
    """

    tenant: Tenant
    neighbour: Tenant
    owner: User
    lead: User
    manager: User
    offer: Offer
    spare: Offer
    own: Workload
    mate: Workload
    token: ApiToken
    lead_token: ApiToken
    account: ServiceAccount
    account_token: ApiToken
    grant: Grant
    request: QuotaRequest
    budget: Budget
    notice: Notice
    image: Image
    template: Template

    def place(self, resource: str, *, mate: bool = False) -> Place:
        """What stands in an address of that resource; looked up once: no request changes it for the next."""
        keys, rest = self._ids[own := self.mate if mate else self.own]
        pk = own.slug if resource == "slug" else str(own.pk)
        return {**rest, "key": str(keys.get(resource, "")), "pk": pk}

    @cached_property
    def _ids(self) -> dict[Workload, tuple[dict[str, Any], Place]]:
        return {own: self._looked_up(own) for own in (self.own, self.mate)}

    def _looked_up(self, own: Workload) -> tuple[dict[str, Any], Place]:
        tenant, offer, workload = self.tenant, self.offer, str(own.pk)
        finding = str(Finding.objects.get(workload_id=workload).pk)
        quota, token = tenant.quotas.get(offer=offer).pk, own.tokens.get().pk
        allocation = str(Allocation.objects.get(workload_id=workload).pk)
        keys = {
            "tenant": tenant.slug, "department": tenant.department.slug, "offer": offer.slug, "quota": quota,
            "flavor": offer.flavor.slug, "price": Price.objects.get(offer=offer).pk, "member": tenant.slug,
            "account": self.account.pk, "account's": self.account.pk,
            "invitation": self._invitation.pk,
            "grant": self.grant.pk, "request": self.request.pk, "budget": self.budget.pk, "finding": finding,
            "image": self.image.slug, "registry": tenant.slug, "group-rule": self._rule(),
            "template": self.template.slug, "drift": self._drift(),
            "statement": Statement.objects.get(tenant=tenant).pk, "allocation": allocation,
            "record": workload,
        }  # fmt: skip
        return keys, {
            "workload": workload, "service_token": str(token), "tenant": tenant.slug,
            "neighbour": self.neighbour.slug, "username": self.owner.username, "kind": "notebook",
            "offer": offer.slug, "spare": self.spare.slug, "flavor": offer.flavor.slug,
            "department": tenant.department.slug, "cluster": tenant.cluster.slug, "user": str(self.owner.pk),
            "name": "gpu-01", "node": "gpu-01", "account": str(self.account.pk),
            "token": str(self.account_token.pk), "text": "no-link", "what": "suspend", "verb": "archive",
            "chart": "use", "arrangement": "front", "drift": self._drift(),
            "invitation": str(self._invitation.pk),
            "quota_request": str(self.request.pk), "notice": str(self.notice.pk),
            "grant": str(self.grant.pk), "act": "hold", "finding": finding, "answer": "dismiss",
            "file": "lines", "allocation": allocation, "image": self.image.slug,
            "registry": f"{tenant.slug}.example", "provider": "nowhere", "rule": self._rule(),
            "session": str(PersonSession.objects.get(user=self.owner).pk), "template": self.template.slug,
            "passkey": str(Passkey.objects.get(user=self.owner).pk),
            "number": "1", "before": "1", "after": "1", "secret": f"KEY_OF_{tenant.slug}",
            "app": "workloads", "model": "workload",
        }  # fmt: skip

    @property
    def _invitation(self) -> MemberInvitation:
        return MemberInvitation.objects.get(tenant=self.tenant)

    def _rule(self) -> str:
        return str(GroupRule.objects.get(target=self.tenant.slug).pk)

    def _drift(self) -> str:
        return str(Drift.objects.get(tenant=self.tenant.slug).pk)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """What only this side, and who sees everything, may ever read."""
        rows = (self.tenant, self.neighbour, self.tenant.department, self.own, self.mate, self.offer,
                self.token, self.owner, self.account, self.account_token, self.grant, self.request,
                self.budget, self.notice, self.image, self.template)  # fmt: skip
        names = (self.tenant.slug, self.neighbour.slug, self.tenant.department.slug, self.own.slug)
        people = (self.owner.username, self.lead.username, self.manager.username)
        found = Finding.objects.filter(tenant=self.tenant).values_list("pk", flat=True)
        wanted = (str(self._invitation.pk), self._invitation.email)
        slugs = (self.offer.slug, self.image.slug, self.template.slug)
        return (
            *(str(row.pk) for row in rows),
            self._drift(),
            *map(str, found),
            *names,
            *people,
            *slugs,
            *wanted,
        )


@dataclass(frozen=True)
class Scene:
    """The sides, and a client of each role for REST and for pages."""

    here: Side
    there: Side
    api: Mapping[str, Client]
    pages: Mapping[str, Client]
    device: str
    places: dict[tuple[str, str, str], Place] = field(default_factory=dict)
    """What was looked up: no request changes the scene for the next one."""

    def sides(self, role: str) -> tuple[Side, Side]:
        """Home, and the other side."""
        return (self.there, self.here) if role == "stranger" else (self.here, self.there)

    def token_of(self, role: str) -> str:
        """A token that this role's person owns."""
        home = self.sides(role)[0]
        if role in WATCHERS:
            return str(ApiToken.objects.get(name="second", user__username=role).pk)
        if role == "manager":
            return str(ApiToken.objects.get(name="second", user=home.manager).pk)
        return str((home.lead_token if role == "lead" else home.token).pk)

    def notice_of(self, role: str) -> str:
        """A message to this role's person."""
        home = self.sides(role)[0]
        own = {"lead": home.lead.username, "manager": home.manager.username}
        own |= {watcher: watcher for watcher in WATCHERS}
        username = own.get(role, home.owner.username)
        return str(Notice.objects.get(user__username=username).pk)

    def place(self, resource: str, kind: str, role: str) -> Place:
        """The values of an address, and those its body may name, of one kind of id as this role sees it."""
        known = self.places.get((resource, kind, role))
        if known is None:
            known = self.places[resource, kind, role] = self._looked_up(resource, kind, role)
        return dict(known)

    def _looked_up(self, resource: str, kind: str, role: str) -> Place:
        home, away = self.sides(role)
        side = away if kind == "other" else home
        found = side.place(resource, mate=kind == "mate") | {"uuid": self.device, "code": "not_found"}
        found["token_id"] = str(away.token.pk) if kind == "other" else self.token_of(role)
        found["notice"] = str(away.notice.pk) if kind == "other" else self.notice_of(role)
        found["ssh_key"] = ssh_lines.id_of(side.lead if role == "lead" else side.owner)
        if resource == "account's":
            found["token_id"] = str(side.account_token.pk)
        if kind == "crossed":
            found |= {**away.place(resource), "tenant": home.tenant.slug}
        if kind == "ghost":
            found["username"] = "ghost"
        return found


@contextmanager
def open_scene() -> Iterator[Scene]:
    """The scene while the block runs; nothing of it stays. Redis is switched off: it counts requests."""
    config = settings.CONFIG.model_copy(update={"oidc": ACME})
    with override_settings(CACHES=NO_REDIS, CONFIG=config), transaction.atomic():
        yield _scene(timezone.now())
        transaction.set_rollback(True)


@contextmanager
def undone() -> Iterator[None]:
    """Whatever the block writes is gone after it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _scene(now: datetime) -> Scene:
    here = _side(("north", "imaging", "optics", "h100"), ("rosa", "leon", "yusra"), now)
    there = _side(("south", "biology", "genomics", "l4"), ("otto", "dora", "maud"), now)
    fleet.show_fleet(here.tenant.cluster, now=now)
    people = {"member": here.owner, "lead": here.lead, "manager": here.manager, "stranger": there.owner}
    for role in PlatformRole:
        people[str(role)] = factories.make_user(str(role), platform_role=role)
        _token(people[str(role)], now, name="second")
        _told(people[str(role)], now)
    return Scene(here, there, _tokens(people, now), _sessions(people, now), _device(here))


def _side(slugs: tuple[str, str, str, str], people: tuple[str, str, str], now: datetime) -> Side:
    cluster, department, slug, flavor = slugs
    tenant = factories.make_tenant(
        factories.make_department(factories.make_cluster(cluster), department), slug
    )
    neighbour = factories.make_tenant(tenant.department, f"{slug}-too")
    owner, lead, manager = (factories.make_user(name) for name in people)
    DepartmentManager.objects.create(department=tenant.department, user=manager)
    factories.join(tenant, owner)
    factories.join(tenant, lead, Role.LEAD)
    kind = factories.make_flavor(tenant.cluster, flavor, f"NVIDIA {flavor.upper()}")
    offer, spare = (factories.make_offer(kind, f"{flavor}-{size}") for size in ("slice", "spare"))
    Price.objects.filter(offer__in=(offer, spare)).update(valid_from=now - timedelta(days=1))
    factories.make_quota(tenant, offer, nominal=4)
    TenantQueue.objects.create(tenant=tenant, cluster=tenant.cluster)
    own, mate = (runs.running(tenant, user, offer, number, now) for number, user in enumerate((owner, lead)))
    token, lead_token = (_token(user, now, name="second")[0] for user in (owner, lead))
    _token(manager, now, name="second")
    _told(owner, now), _told(manager, now)
    ssh_lines.kept(owner, now), ssh_lines.kept(lead, now)
    robot, asked = _robot(tenant, lead, now), _asked(tenant, lead, offer, now)
    _registry(tenant, lead, now)
    for row in (own, mate):
        _secret(row, now)
    _comes_in(tenant, owner, now)
    factories.make_drift(own, now)
    rest = (token, lead_token, *robot, *asked, _image(tenant), _template(tenant))
    return Side(tenant, neighbour, owner, lead, manager, offer, spare, own, mate, *rest)


def _asked(
    tenant: Tenant, lead: User, offer: Offer, now: datetime
) -> tuple[Grant, QuotaRequest, Budget, Notice]:
    days = {"starts_at": now + timedelta(days=8), "ends_at": now + timedelta(days=9)}
    grant = Grant.objects.create(tenant=tenant, offer=offer, count=1, created_by="petra", **days)
    request = QuotaRequest.objects.create(
        tenant=tenant, offer=offer, kind="guaranteed", count=2, reason="more", asked_by=lead, created_at=now
    )
    Statement.objects.create(
        tenant=tenant, month=date(2025, 12, 1), number=f"{tenant.slug}-0001", currency="EUR",
        formula=Formula.MAX.label, total=0, effective=0, waste=0, unknown=0, closed_at=now,
        closed_by="petra", digest="",
    )  # fmt: skip
    MemberInvitation.objects.create(
        tenant=tenant, email=f"wanted@{tenant.slug}.example", asked_by=lead, created_at=now
    )
    budget = Budget.objects.create(tenant=tenant, unit="money", hard_limit=900, created_by="petra")
    return grant, request, budget, _told(lead, now)


def _image(tenant: Tenant) -> Image:
    """An image of the catalogue that is for this tenant alone."""
    made = factories.make_image(f"{tenant.slug}-image", f"registry.example/{tenant.slug}/lab:1")
    made.tenants.set([tenant])
    return made


def _template(tenant: Tenant) -> Template:
    """A template that is for this tenant alone."""
    made = factories.make_template(f"{tenant.slug}-template", image=f"registry.example/{tenant.slug}/lab:1")
    made.tenants.set([tenant])
    return made


def _registry(tenant: Tenant, lead: User, now: datetime) -> None:
    """A registry of its own: nobody of the other side learns its name."""
    login = RegistryLogin(f"{tenant.slug}.example", "puller", "a-password-of-the-scene")
    registries.set_registry(actor=as_actor(lead), tenant=tenant, login=login, now=now)


def _comes_in(tenant: Tenant, owner: User, now: datetime) -> None:
    """A rule on a group, the owner's passkey, and a browser somewhere in which they are signed in."""
    GroupRule.objects.create(
        provider="acme", group=f"people-of-{tenant.slug}", kind="tenant", target=tenant.slug, role="member",
        created_by="petra", created_at=now,
    )  # fmt: skip
    Passkey.objects.create(user=owner, name="key", digest=tenant.slug, created_at=now)
    (store := SessionStore()).create()
    PersonSession.objects.create(
        user=owner, session_key=store.session_key or "", way="oidc:acme", address="192.0.2.7",
        browser="Firefox", started_at=now, seen_at=now,
    )  # fmt: skip


def _secret(row: Workload, now: datetime) -> None:
    """A secret and a token of its own."""
    factories.make_service_token(row, now)
    wish = SecretWish(f"KEY_OF_{row.tenant.slug}", Into.ENV, "a-value-of-the-scene")
    keeping.set_secret(actor=as_actor(row.owner), workload=row, wish=wish, now=now)


def _told(user: User, now: datetime) -> Notice:
    return Notice.objects.create(user=user, kind="grant.given", message="more", created_at=now)


def _robot(tenant: Tenant, lead: User, now: datetime) -> tuple[ServiceAccount, ApiToken]:
    wish = service_accounts.AccountWish(tenant, f"robot-of-{tenant.slug}", "", "member")
    account = service_accounts.create_account(actor=as_actor(lead), wish=wish, now=now)
    asked = TokenWish("robot", [], [], now + timedelta(days=1))
    made = service_accounts.create_token(actor=as_actor(lead), account=account, wish=asked, now=now)
    return account, made[0]


def _device(side: Side) -> str:
    cluster = side.tenant.cluster
    return next(gpu.view.id for gpu in gpus_for(as_actor(side.owner)) if gpu.cluster == cluster)


def _token(user: User, now: datetime, **given: Any) -> tuple[ApiToken, str]:
    asked: dict[str, Any] = {"name": "role", "scopes": [], "tenants": [], "expires_in_days": 1, "now": now}
    return create_token(actor=as_actor(user), **(asked | given))


def _tokens(people: Mapping[str, User], now: datetime) -> dict[str, Client]:
    texts = {role: _token(user, now)[1] for role, user in people.items()}
    texts["reader"] = _token(people["member"], now, scopes=[f"{group}:read" for group in ScopeGroup])[1]
    texts["expired"] = _token(people["member"], now - timedelta(days=2))[1]
    revoked, texts["revoked"] = _token(people["member"], now)
    revoke_token(actor=as_actor(people["member"]), token=revoked, now=now)
    clients = {role: _client({"Authorization": f"Bearer {text}"}) for role, text in texts.items()}
    return {"anonymous": _client({}), **clients}


def _sessions(people: Mapping[str, User], now: datetime) -> dict[str, Client]:
    """A reader's page is asked with a token: tokens open no page."""
    clients = {role: _client({}) for role in (*people, "anonymous", "expired", "revoked")}
    for role, user in people.items():
        clients[role].force_login(user)
    for role in ("expired", "revoked"):
        clients[role].force_login(people["member"])
    session = clients["expired"].session
    session[SIGNED_IN] = int((now - timedelta(days=2)).timestamp())
    session.save()
    clients["revoked"].session.flush()
    reader = _token(people["member"], now, scopes=[f"{group}:read" for group in ScopeGroup])[1]
    return clients | {"reader": _client({"Authorization": f"Bearer {reader}"})}


def _client(headers: Mapping[str, str]) -> Client:
    return Client(headers=dict(headers), raise_request_exception=False)
