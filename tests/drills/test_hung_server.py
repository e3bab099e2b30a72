"""A server that takes the call and never answers costs its read limit once, and the row says so."""

import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml

from apps.cluster.gateway import client
from apps.cluster.models import Cluster
from apps.cluster.objects.conditions import find
from apps.tenants.lifecycle.services.reconcile import reconcile_department
from apps.tenants.models import Department
from tests import factories

pytestmark = pytest.mark.exhaustive

LIMIT = 1.0


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that listens and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def calls(listener: socket.socket) -> int:
    """How often it was called so far."""
    listener.setblocking(False)
    for number in count():
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return number
    raise AssertionError


@pytest.fixture
def mute(db: None, silent: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Department:
    """A row in the cluster of that server. The read limit is shortened, nothing else."""
    defaults = {**(client.KubernetesGateway._call.__kwdefaults__ or {}), "read": LIMIT}
    monkeypatch.setattr(client.KubernetesGateway._call, "__kwdefaults__", defaults)
    path = tmp_path / "kubeconfig"
    server = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
    entry = {"name": "mute"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "mute",
        "clusters": [{**entry, "cluster": server}],
        "users": [{**entry, "user": {"token": "none"}}],
        "contexts": [{**entry, "context": {"cluster": "mute", "user": "mute"}}],
    }
    path.write_text(yaml.safe_dump(document))
    cluster = Cluster.objects.create(slug="mute", name="Mute", kubeconfig_path=str(path))
    return factories.make_department(cluster, "research")


def test_a_silent_server_is_asked_once_and_waited_for_once(mute: Department, silent: socket.socket) -> None:
    reconcile_department(mute.pk)
    assert calls(silent) == 1, "it was not asked a second time"
    mute.refresh_from_db()
    synced = find(mute.conditions, "Synced")
    assert synced is not None
    assert (synced["status"], synced["reason"]) == ("False", "ClusterUnavailable")
    assert (mute.attempts, mute.lease_owner) == (1, "")
    assert mute.due_at is not None
