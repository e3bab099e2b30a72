"""A kubeconfig that leads nowhere is refused by its field, by every way in: not registered, and silent."""

import base64
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from apps.cluster.gateway import usable
from apps.cluster.models import Cluster
from tests.cluster.registering import CONFIG, body
from tests.conftest import Cast
from tests.controlplane import pki
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases
NO_PEM = base64.b64encode(b"no certificate").decode()
Change = dict[tuple[Any, ...], Any]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An authority, a client's certificate with its key, and a key that is not its own; in base64."""
    made = pki.own_pki(tmp_path_factory.mktemp("pki"))
    certificate, key = pki.administrator(made)
    _, other = pki.client(made, "u", "g")
    pems = {"ca": made.cert("ca").read_bytes(), "cert": certificate, "key": key, "other": other}
    return {name: base64.b64encode(pem).decode() for name, pem in pems.items()}


def changed(changes: Change, keys: dict[str, str] | None = None) -> dict[str, Any]:
    """CONFIG with other values at these places; `$ca` is one of the keys, None takes the field out."""
    document = deepcopy(CONFIG)
    for place, value in changes.items():
        at: Any = document
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = (keys or {})[value[1:]] if str(value).startswith("$") else value
        if value is None:
            del at[place[-1]]
    return document


CA = ("clusters", 0, "cluster", "certificate-authority-data")
SERVER = ("clusters", 0, "cluster", "server")
CERT, KEY = (("users", 0, "user", f"client-{each}-data") for each in ("certificate", "key"))
SERVERS = ("http://10.0.0.1:6443", "10.0.0.1:6443", "https://:1", "", None)
WRONG: list[tuple[Change, tuple[Any, ...]]] = [
    ({("current-context",): None}, ("current-context",)),
    ({("current-context",): ""}, ("current-context",)),
    ({("current-context",): "elsewhere"}, ("current-context",)),
    ({("contexts", 0, "context", "cluster"): "gone"}, ("contexts", 0, "context", "cluster")),
    ({("contexts", 0, "context", "user"): "gone"}, ("contexts", 0, "context", "user")),
    ({("contexts", 0, "context", "user"): None}, ("contexts", 0, "context", "user")),
    ({CA: "-----BEGIN CERTIFICATE-----"}, CA),
    ({CA: NO_PEM}, CA),
    ({CERT: NO_PEM, KEY: "$key"}, CERT),
    ({CERT: "$cert", KEY: NO_PEM}, KEY),
    ({CERT: "$cert", KEY: "$other"}, KEY),
    ({CERT: "$cert"}, KEY),
    ({KEY: "$key"}, CERT),
    *(
        ({SERVER: server}, SERVER)
        for server in ("http://10.0.0.1:6443", "10.0.0.1:6443", "https://:1", "", None)
    ),
]


def test_good_credentials_are_accepted(keys: dict[str, str]) -> None:
    assert usable.problems(changed({CA: "$ca", CERT: "$cert", KEY: "$key"}, keys)) == []
    spare = {"name": "spare", "cluster": {"server": "x", "certificate-authority-data": "x"}}
    assert usable.problems(CONFIG | {"clusters": [*CONFIG["clusters"], spare]}) == []


@pytest.mark.parametrize(("changes", "place"), WRONG)
def test_every_way_of_registering_refuses_it_by_its_field(
    cast: Cast, keys: dict[str, str], tmp_path: Path, changes: Change, place: tuple[Any, ...]
) -> None:
    document, petra = changed(changes, keys), Rest(cast.petra)
    pointer = "/".join(map(str, place))
    refused = [petra.send("POST", "/clusters", body(document))]
    assert petra.send("POST", "/clusters", body()).status_code == 201
    spec = {"spec": {"kubeconfig": yaml.safe_dump(document)}}
    refused.append(petra.send("PATCH", "/clusters/south", spec, match='"1"'))
    for answer in refused:
        assert answer.status_code == 422
        assert [error["pointer"] for error in answer.json()["errors"]] == [f"#/spec/kubeconfig/{pointer}"]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(CommandError, match=f"spec.kubeconfig.{pointer.replace('/', '.')}"):
        call_command("register_cluster", slug="file", kubeconfig=str(file))
    assert not Cluster.objects.filter(slug="file").exists()


def test_a_file_that_an_operators_kubeconfig_names_is_looked_at_where_it_can_be_read(tmp_path: Path) -> None:
    document = changed({("clusters", 0, "cluster", "certificate-authority"): "ca.crt"})
    assert usable.problems(document, tmp_path) == []
    (tmp_path / "ca.crt").write_text("no certificate")
    (problem,) = usable.problems(document, tmp_path)
    assert problem.startswith("/clusters/0/cluster/certificate-authority: holds no certificate in PEM")
