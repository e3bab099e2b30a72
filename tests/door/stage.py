"""The rows behind a door that runs, made in a process that has Django set up; and what tests need of them.

Rosa and Leon are in vision, Otto in genomics, Petra runs the platform. `mine`, `shared` and `lent` are
rosa's, `leons` is leon's; all of them run, each in a pod named like its slug. The others of vision each
lose the right to what is named after how.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.test import Client
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.models import User
from apps.accounts.tokens import digest
from apps.cluster.models import Cluster, MirrorObject
from apps.tenants.specs import Role
from apps.workloads.models import Opening, Workload
from apps.workloads.opening.services import service_tokens
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase
from tests import factories
from tests.conftest import as_actor

OPEN_TO_TEAM = ("shared", "lent")


def seed(kubeconfig: str, notebooks: str = "0") -> dict[str, Any]:
    """Everything, and who may come in how."""
    cluster = factories.make_cluster()
    Cluster.objects.update(kubeconfig_path=kubeconfig)
    vision = factories.make_tenant(factories.make_department(cluster, "research"), "vision")
    genomics = factories.make_tenant(factories.make_department(cluster, "bio"), "genomics")
    owners = {
        "mine": "rosa", "shared": "rosa", "leons": "leon", "stops": "nina", "goes": "nina", "leaves": "omar",
        "locked": "pia", "signs": "quinn", "leads": "uma", "robs": "vito",
        "lent": "rosa",
    }  # fmt: skip
    people = {name: factories.make_user(name) for name in {*owners.values(), "otto"}}
    for name in {*owners.values()} - {"leon"}:
        factories.join(vision, people[name])
    people["petra"] = factories.make_user("petra", platform_role="platform")
    factories.join(vision, people["leon"], Role.LEAD)
    factories.join(genomics, people["otto"])
    offer = factories.make_offer(factories.make_flavor(cluster))
    factories.make_quota(vision, offer, nominal=20)
    llm = service(vision, people["rosa"], offer)
    return {
        "llm": llm,
        "cookie": settings.SESSION_COOKIE_NAME,
        "sessions": {name: session(user) for name, user in people.items()},
        "tokens": {name: token(user) for name, user in people.items()},
        "workloads": {"llm": llm["workload"]}
        | {slug: notebook(vision, people[owner], offer, slug) for slug, owner in owners.items()},
        "notebooks": [entered(vision, people["rosa"], offer, number) for number in range(int(notebooks))],
    }


def entered(tenant: Any, owner: User, offer: Any, number: int) -> tuple[str, str]:
    """A notebook and the cookie of a way into it."""
    pk, cookie = notebook(tenant, owner, offer, f"bench-{number}"), f"cookie-{number}"
    now = timezone.now()
    Opening.objects.create(
        workload_id=pk, user=owner, session=session(owner), code=digest(f"code-{number}"), code_ends_at=now,
        cookie=digest(cookie), ends_at=now + timedelta(hours=1),
    )  # fmt: skip
    return pk, cookie


def service(tenant: Any, owner: User, offer: Any) -> dict[str, str]:
    """A service that runs, opened to its team, with a token of its owner."""
    pk = running(tenant, owner, offer, "llm", {"kind": "service", "service": {"port": 8888}})
    row = Workload.objects.get(pk=pk)
    made = service_tokens.make_token(actor=as_actor(owner), workload=row, name="ci", now=timezone.now())
    return {"workload": pk, "token": made.text, "id": str(made.token.pk)}


def notebook(tenant: Any, owner: User, offer: Any, slug: str) -> str:
    """A notebook that runs."""
    wish = {"kind": "notebook", "notebook": {"open_to": "team" if slug in OPEN_TO_TEAM else "owner"}}
    return running(tenant, owner, offer, slug, wish)


def running(tenant: Any, owner: User, offer: Any, slug: str, wish: dict[str, Any]) -> str:
    """A workload that runs, in a pod named like its slug."""
    spec = parsing.as_json(parsing.parse({**factories.notebook_body(offer.slug, notebook=None), **wish}))
    row = factories.make_workload(tenant, owner, offer, slug=slug, spec=spec)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=timezone.now())
    MirrorObject.objects.create(
        cluster=row.cluster, kind="Pod", namespace=tenant.object_name, name=slug, uid=str(row.pk),
        owner_kind="workload", owner_id=str(row.pk), body={"spec": {"nodeName": "n"}},
    )  # fmt: skip
    return str(row.pk)


def session(user: User) -> str:
    """The cookie of a sign-in."""
    client = Client()
    client.force_login(user)
    return str(client.session.session_key)


def token(user: User) -> str:
    """A token of REST."""
    asked: dict[str, Any] = {"name": "t", "scopes": [], "tenants": [], "expires_in_days": 1}
    return accounts.create_token(actor=as_actor(user), now=timezone.now(), **asked)[1]
