"""Tokens in files: a pod's own account, and a kubeconfig's `tokenFile`. Both are read anew for each call."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import certifi
import pytest
import yaml

from apps.accounts.specs import system_actor
from apps.cluster.errors import Unreachable
from apps.cluster.gateway import client, mounted
from apps.cluster.registration.services.clusters import register_cluster
from apps.errors import Invalid
from tests.cluster.registering import CONFIG

NOW = datetime(2026, 11, 24, tzinfo=UTC)


class Asked(BaseHTTPRequestHandler):
    """Says a version, and keeps with which token it was asked."""

    tokens: list[str]

    def do_GET(self) -> None:
        self.tokens.append(self.headers["Authorization"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"gitVersion": "v1.36.3"}')

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Asked.tokens = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "ca.crt").write_text(Path(certifi.where()).read_text())
    monkeypatch.setenv(mounted.HOST, "10.96.0.1")
    monkeypatch.setenv(mounted.PORT, "443")
    return folder


def test_a_token_that_was_written_anew_is_the_one_of_the_next_call(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    user = {"name": "u", "user": {"tokenFile": "token", "token": "of long ago"}}
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    path, token = tmp_path / "kubeconfig", tmp_path / "token"
    path.write_text(yaml.safe_dump(CONFIG | {"users": [user], "clusters": [cluster]}))
    token.write_text("first\n")
    gateway = client.for_kubeconfig(str(path))
    assert gateway.server_version() == "v1.36.3"
    token.write_text("second\n")
    assert client.for_kubeconfig(str(path)) is gateway
    gateway.server_version()
    assert Asked.tokens == ["Bearer first", "Bearer second"]

    token.unlink()
    with pytest.raises(Unreachable):
        gateway.server_version()


def test_a_folder_is_the_account_of_this_pod_and_its_token_is_read_for_each_call(account: Path) -> None:
    gateway = client._configuration(str(account))
    assert (gateway.host, gateway.ssl_ca_cert) == ("https://10.96.0.1:443", str(account / "ca.crt"))
    assert gateway.get_api_key_with_prefix("BearerToken") == "Bearer first"
    (account / "token").write_text("second")
    assert gateway.get_api_key_with_prefix("BearerToken") == "Bearer second"


def test_an_address_of_ipv6_stands_in_brackets(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mounted.HOST, "fd00::1")
    assert client._configuration(str(account)).host == "https://[fd00::1]:443"


def test_somebody_elses_token_is_never_replaced_by_the_accounts(account: Path) -> None:
    (account / "ca.crt").write_text(Path(certifi.where()).read_text())
    assert client.with_token(str(account), "theirs")._headers("")["Authorization"] == "Bearer theirs"
    assert client.for_kubeconfig(str(account))._headers("")["Authorization"] == "Bearer first"


@pytest.mark.django_db
def test_an_account_that_is_not_there_is_not_registered(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def register() -> None:
        register_cluster(
            actor=system_actor("operator"), slug="north", name="North", kubeconfig_path=str(account),
            is_simulated=False, now=NOW,
        )  # fmt: skip

    register()
    (account / "token").write_text("")
    monkeypatch.delenv(mounted.PORT)
    with pytest.raises(Invalid) as refused:
        register()
    words = " ".join(each.detail for each in refused.value.problems)
    assert "token is not there, empty" in words
    assert f"{mounted.PORT} not set: this process does not run in a pod" in words
