"""RULE: a credential is shown once to whoever made it or is written and never read, and stands nowhere after:
in no answer of REST, on no page, in no line of log and in no copy of the database. Of the support bundle:
tests/operate/test_doctor.py.
"""

import base64
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import models
from django.test import override_settings
from django.utils import timezone

from apps import sealing
from apps.accounts import people
from apps.accounts.models import User
from apps.accounts.people import PersonWish
from apps.accounts.services import create_token
from apps.cluster.models import Cluster
from apps.tenants.people.services import inviting, registries
from apps.tenants.specs import RegistryLogin, Role
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.services import keeping
from tests.accounts.second_factors import give_app
from tests.conftest import as_actor
from tests.matrix.asking import body_of, send
from tests.matrix.scene import Scene, undone
from tests.matrix.table import Cell, load
from tests.sample import EXHAUSTIVE

pytestmark = pytest.mark.django_db
WATCHED = ("platform", "lead", "member") if EXHAUSTIVE else ("platform",)
"""Who sees most of what there is, and of a team; the sample asks as the first alone."""
KUBECONFIG = """
apiVersion: v1
kind: Config
users: [{name: us, user: {token: canary-kubeconfig-4f0e}}]
"""


@pytest.fixture
def planted(scene: Scene) -> Iterator[dict[str, str]]:
    """A credential of every kind, by what it is."""
    now, here = timezone.now(), scene.here
    config = settings.CONFIG.model_copy(
        update={
            "metrics_token": "canary-metrics-token-4f0e",
            "oidc": settings.CONFIG.oidc.replace(
                '"client_id"', '"client_secret": "canary-oidc-4f0e", "client_id"'
            ),
        }
    )
    with undone(), override_settings(CONFIG=config):
        owner = as_actor(here.owner)
        Cluster.objects.filter(pk=here.tenant.cluster_id).update(kubeconfig_sealed=sealing.seal(KUBECONFIG))
        login = RegistryLogin("canary.example", "canary-user-4f0e", "canary-password-4f0e")
        registries.set_registry(actor=as_actor(here.lead), tenant=here.tenant, login=login, now=now)
        wish = SecretWish("CANARY", Into.ENV, "canary-secret-4f0e")
        keeping.set_secret(actor=owner, workload=here.own, wish=wish, now=now)
        yield {
            "secret key": settings.SECRET_KEY,
            "metrics token": "canary-metrics-token-4f0e",
            "provider's secret": "canary-oidc-4f0e",
            "kubeconfig": "canary-kubeconfig-4f0e",
            "registry's user": "canary-user-4f0e",
            "registry's password": "canary-password-4f0e",
            "workload's secret": "canary-secret-4f0e",
            **_of_people(scene, now),
        }


def _of_people(scene: Scene, now: Any) -> dict[str, str]:
    # Not of those who ask: what changes how somebody signs in ends their sessions.
    somebody = scene.there.manager
    somebody.set_password("canary-of-a-person-4f0e")
    somebody.save()
    secret, codes = give_app(somebody)
    platform = as_actor(User.objects.get(username="platform"))
    _, link = people.invite(actor=platform, wish=PersonWish("canary", "Canary", "c@example.org"), now=now)
    invited = inviting.invite(
        actor=platform, tenant=scene.here.neighbour, email="canary@example.org", role=Role.MEMBER, now=now
    )
    _, token = create_token(
        actor=as_actor(scene.here.owner), name="c", scopes=[], tenants=[], expires_in_days=1, now=now
    )
    return {
        "password": "canary-of-a-person-4f0e",
        "app's secret": secret.hex(),
        "app's secret, as shown": base64.b32encode(secret).decode().rstrip("="),
        "recovery code": codes[0],
        "one-time link": link,
        "one-time link of an invited member": invited.link,
        "API token": token,
    }


def cells() -> Iterator[Cell]:
    """Every address that answers these people, as JSON or as the page and its parts."""
    table = load()
    for row in table.rows:
        for cell in table.cells(row):
            is_answer = str(table.answers[cell.expected])[0] == "2"
            if (
                cell.method == "GET"
                and cell.role in WATCHED
                and cell.kind in ("own", "none", "mate")
                and is_answer
            ):
                yield cell


def named_in(text: str, planted: dict[str, str]) -> list[str]:
    return [name for name, secret in planted.items() if secret in text]


def test_no_answer_and_no_log_names_a_credential(
    scene: Scene, planted: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    table, found, asked = load(), [], 0
    for cell in cells():
        answer = send(scene, table, cell)
        asked += 1
        found += [f"{cell}: {name}" for name in named_in(body_of(answer).decode(errors="replace"), planted)]
    assert asked > 100
    assert found == []
    assert named_in(caplog.text, planted) == []


def test_no_copy_of_the_database_holds_a_credential(planted: dict[str, str]) -> None:
    found = []
    for model in apps.get_models():
        columns = [
            each.attname for each in model._meta.concrete_fields if not isinstance(each, models.BinaryField)
        ]
        for row in model._base_manager.values_list(*columns):
            found += [f"{model._meta.label}: {name}" for name in named_in(str(row), planted)]
    assert found == []
