"""A tenant's registries: who sets them, the Secret they become, and that nobody reads them again."""

import base64
import json
import logging
from typing import Any

import pytest
from django.apps import apps
from django.test import override_settings

from apps.audit.models import AuditEvent
from apps.cluster.models import MirrorObject
from apps.cluster.objects.conditions import find
from apps.cluster.specs import ObjectRef
from apps.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.tenants.isolation import registries as rendering
from apps.tenants.lifecycle.selectors import logins
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.models import RegistryCredential, Tenant
from apps.tenants.people.services import registries
from apps.tenants.specs import REGISTRIES, RegistryLogin
from tests.conftest import Cast, SignedIn, as_actor
from tests.factories import NOW, begin_deletion
from tests.golden import differs
from tests.tenants.example import TENANT
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CANARY = "canary-9f3c-password"
USER_CANARY = "canary-71aa-user"


def login(registry: str = "quay.io", password: str = CANARY) -> RegistryLogin:
    return RegistryLogin(registry, USER_CANARY, password)


def put(cast: Cast, user: Any = None, **given: str) -> RegistryCredential:
    actor = as_actor(user or cast.leon)
    return registries.set_registry(actor=actor, tenant=cast.vision, login=login(**given), now=NOW)


@pytest.fixture
def gateway() -> InProcess:
    made = InProcess()
    made.client.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "allotment-access"}}
    )
    return made


def secret_of(gateway: InProcess, tenant: Tenant) -> Any:
    return gateway.get(ObjectRef("Secret", tenant.object_name, REGISTRIES))


def auths(secret: Any) -> Any:
    return json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))["auths"]


def test_the_secret_is_as_kubectl_makes_it() -> None:
    logins_ = [RegistryLogin("docker.io", "ada", "p:w"), RegistryLogin("quay.io", "robot", "key")]
    assert not differs("tenants/registries", rendering.render(TENANT, logins_))
    assert rendering.render(TENANT, []) == []


def test_leads_and_platform_engineers_set_and_remove_and_nobody_else(cast: Cast) -> None:
    for user in (cast.rosa, cast.otto, cast.ann):
        with pytest.raises(NotAllowed):
            put(cast, user)
        with pytest.raises(NotAllowed):
            registries.remove_registry(actor=as_actor(user), tenant=cast.vision, registry="quay.io", now=NOW)
    put(cast, cast.leon)
    put(cast, cast.petra, password="another")
    (row,) = logins.registries_of(cast.vision)
    assert (row.registry, row.set_by) == ("quay.io", "platform")
    told = [(each.action, each.actor, each.target_name) for each in AuditEvent.objects.order_by("sequence")]
    assert told == [("registry.set", "lead", "quay.io"), ("registry.set", "platform", "quay.io")]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (RegistryLogin("https://quay.io", "a", "b"), "/registry"),
        (RegistryLogin("quay.io/team", "a", "b"), "/registry"),
        (RegistryLogin("quay.io", "", "b"), "/username"),
        (RegistryLogin("quay.io", "a:b", "b"), "/username"),
        (RegistryLogin("quay.io", "a", "x" * 8193), "/password"),
    ],
)
def test_a_wrong_login_is_refused_at_its_field(cast: Cast, given: RegistryLogin, pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        registries.set_registry(actor=as_actor(cast.leon), tenant=cast.vision, login=given, now=NOW)
    assert [problem.pointer for problem in refusal.value.problems] == [pointer]


def test_a_tenant_has_no_more_than_twenty_and_an_archived_one_gets_none(cast: Cast) -> None:
    for number in range(registries.MOST_REGISTRIES):
        put(cast, registry=f"r{number}.example")
    with pytest.raises(Invalid):
        put(cast, registry="one-more.example")
    put(cast, registry="r0.example", password="another")
    Tenant.objects.filter(pk=cast.vision.pk).update(archived_at=NOW)
    with pytest.raises(Conflict):
        put(cast, registry="r0.example")


def test_the_namespace_gets_one_secret_of_all_registries_and_loses_it_with_the_last(
    cast: Cast, gateway: InProcess
) -> None:
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert secret_of(gateway, cast.vision) is None
    put(cast)
    put(cast, registry="docker.io", password="hub")
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    found = auths(secret_of(gateway, cast.vision))
    assert found["quay.io"]["password"] == CANARY
    assert set(found) == {"quay.io", "https://index.docker.io/v1/"}
    for registry in ("quay.io", "docker.io"):
        registries.remove_registry(actor=as_actor(cast.leon), tenant=cast.vision, registry=registry, now=NOW)
        reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert secret_of(gateway, cast.vision) is None
    assert not Tenant.objects.get(pk=cast.vision.pk).has_registries
    with pytest.raises(NotFound):
        registries.remove_registry(actor=as_actor(cast.leon), tenant=cast.vision, registry="quay.io", now=NOW)


def test_a_tenant_with_registries_goes_though_nobody_watches_its_secret(
    cast: Cast, gateway: InProcess
) -> None:
    put(cast)
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    begin_deletion(cast.vision, now=NOW)
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert secret_of(gateway, cast.vision) is None
    assert not MirrorObject.objects.filter(kind="Secret", gone_at=None).exists(), "it would be waited for"


def test_what_was_sealed_with_another_key_is_said_and_the_rest_is_applied(
    cast: Cast, gateway: InProcess
) -> None:
    with override_settings(SECRET_KEY="another-key-of-some-length-for-this-test"):
        put(cast, registry="old.example")
    put(cast)
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert set(auths(secret_of(gateway, cast.vision))) == {"quay.io"}
    told = find(Tenant.objects.get(pk=cast.vision.pk).conditions, "RegistriesRead")
    assert told is not None
    assert "old.example" in told["message"]
    put(cast, registry="old.example")
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    told = find(Tenant.objects.get(pk=cast.vision.pk).conditions, "RegistriesRead")
    assert told is not None
    assert told["status"] == "True"


def columns() -> str:
    """Every column of every row that there is."""
    return str([list(model._default_manager.values()) for model in apps.get_models()])


def test_user_and_password_are_in_no_page_answer_log_record_or_column(
    cast: Cast, gateway: InProcess, signed_in: SignedIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lead, told = signed_in(cast.leon), []
    form = {"registry": "ghcr.io", "username": USER_CANARY, "password": CANARY}
    told.append(lead.post("/t/vision/members/registries/", form))
    told.append(lead.post("/t/vision/members/registries/", {**form, "registry": "not a host"}))
    rest = Rest(cast.leon)
    body = {"username": USER_CANARY, "password": CANARY}
    told.append(rest.send("PUT", "/tenants/vision/registries/quay.io", body))
    told.append(rest.send("PUT", "/tenants/vision/registries/quay.io?dry_run=true", body))
    told.append(rest.send("PUT", "/tenants/vision/registries/quay.io", {**body, "username": "a:b"}))
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert auths(secret_of(gateway, cast.vision))["quay.io"]["password"] == CANARY
    for user in (cast.leon, cast.rosa, cast.petra, cast.ann):
        told += [signed_in(user).get(path) for path in ("/t/vision/members/", "/t/vision/")]
        of = Rest(user)
        paths = ("", "/registries", "/registries/quay.io")
        told += [of.get(f"/tenants/vision{path}") for path in paths]
        told.append(of.send("PATCH", "/tenants/vision?dry_run=true", {"name": "V"}, match="*"))
    statuses = [answer.status_code for answer in told]
    assert statuses[:5] == [303, 422, 200, 200, 422]
    shown = "".join(answer.content.decode().replace('value="canary-71aa-user"', "") for answer in told)
    everything = {"pages and REST": shown, "log": caplog.text, "columns": columns(), "repr": repr(login())}
    clear = [CANARY, base64.b64encode(CANARY.encode()).decode()]
    found = [where for where, text in everything.items() for each in clear if each in text]
    assert found == []
    assert USER_CANARY not in columns() + caplog.text + repr(login())
    assert "quay.io" in shown, "the registry itself is shown"


def test_a_token_that_is_cut_to_another_tenant_or_to_reading_sets_nothing(cast: Cast) -> None:
    body = {"username": "a", "password": "b"}
    path = "/tenants/vision/registries/quay.io"
    assert Rest(cast.leon, scopes=("tenants:read",)).send("PUT", path, body).status_code == 403
    assert Rest(cast.petra, tenants=("genomics",)).send("PUT", path, body).status_code == 404
    assert Rest(cast.petra, tenants=("vision",)).send("PUT", path, body).status_code == 200
    assert RegistryCredential.objects.count() == 1
