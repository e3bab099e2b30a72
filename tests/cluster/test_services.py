"""Registering a cluster."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.specs import Actor, system_actor
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.cluster.registration.services.clusters import register_cluster
from apps.errors import Invalid, NotAllowed

pytestmark = pytest.mark.both_databases

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
OPERATOR = system_actor("operator")
CONFIG = """
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture
def path(tmp_path: Path, db: None) -> str:
    file = tmp_path / "kubeconfig"
    file.write_text(CONFIG)
    return str(file)


def register(path: str, *, actor: Actor = OPERATOR, name: str = "North") -> Cluster:
    return register_cluster(
        actor=actor, slug="north", name=name, kubeconfig_path=path, is_simulated=True, now=NOW
    )


def test_registering_twice_is_registering_once(path: str) -> None:
    first, second = register(path), register(path)

    assert first.pk == second.pk
    assert AuditEvent.objects.filter(action="cluster.register").count() == 1


def test_a_change_is_recorded_with_before_and_after(path: str) -> None:
    register(path)

    register(path, name="South")

    assert Cluster.objects.get().name == "South"
    assert AuditEvent.objects.get(changes__has_key="name").changes == {"name": ["North", "South"]}


def test_only_platform_engineers_register(path: str) -> None:
    with pytest.raises(NotAllowed):
        register(path, actor=Actor("rosa"))


def test_a_kubeconfig_that_runs_a_program_is_refused_with_its_place(path: str) -> None:
    Path(path).write_text(CONFIG.replace("token: t", "exec: {command: sh}"))

    with pytest.raises(Invalid) as refusal:
        register(path)

    assert refusal.value.problems[0].pointer == "/spec/kubeconfig/users/0/user/exec"
    assert not Cluster.objects.exists()


def test_the_command_says_what_is_wrong_in_words(path: str) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("register_cluster", slug="north", kubeconfig="/nowhere/kubeconfig")

    call_command("register_cluster", slug="north", kubeconfig=path)
    assert Cluster.objects.get().slug == "north"
