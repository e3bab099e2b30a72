"""A server that takes the call and never answers costs its read limit once, and the row says so."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from apps.cluster.gateway import client
from apps.cluster.models import Cluster
from apps.cluster.objects.conditions import find
from apps.tenants.lifecycle.services.reconcile import reconcile_department
from apps.tenants.models import Department
from tests import factories

LIMIT = 1.0


@pytest.fixture
def mute(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Department]:
    """A row in a cluster whose server listens and is silent. The read limit is shortened, nothing else."""
    defaults = {**(client.KubernetesGateway._call.__kwdefaults__ or {}), "read": LIMIT}
    monkeypatch.setattr(client.KubernetesGateway._call, "__kwdefaults__", defaults)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        path = tmp_path / "kubeconfig"
        server = {"server": f"http://127.0.0.1:{listener.getsockname()[1]}"}
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
        yield factories.make_department(cluster, "research")


def test_a_silent_server_is_asked_once_and_waited_for_once(mute: Department) -> None:
    began = time.monotonic()
    reconcile_department(mute.pk)
    assert time.monotonic() - began < 1.8 * LIMIT, "it was not asked a second time"
    mute.refresh_from_db()
    synced = find(mute.conditions, "Synced")
    assert synced is not None
    assert (synced["status"], synced["reason"]) == ("False", "ClusterUnavailable")
    assert (mute.attempts, mute.lease_owner) == (1, "")
    assert mute.due_at is not None
