"""Clusters registered over REST: inline credentials only, sealed at rest, never shown again."""

from typing import Any

import pytest
import yaml
from django.test import override_settings

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.errors import Unreachable
from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import Cluster
from tests.cluster.registering import CONFIG, body
from tests.conftest import Cast, generation
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


@pytest.fixture
def petra(cast: Cast) -> Rest:
    return Rest(cast.petra)


def test_a_cluster_is_registered_by_inline_data_and_its_credentials_are_never_shown(petra: Rest) -> None:
    made = petra.send("POST", "/clusters", body())

    assert (made.status_code, generation(made)) == (201, 1)
    assert made.json()["spec"] == {"kubeconfig": None}
    assert "very-secret" not in petra.get("/clusters/south").content.decode()
    row = Cluster.objects.get(slug="south")
    assert "very-secret" not in row.kubeconfig_sealed
    assert "very-secret" not in str(list(AuditEvent.objects.values_list("changes", flat=True)))
    assert open_gateway(row).address == "https://10.0.0.1:6443"  # type: ignore[attr-defined]


def test_with_another_secret_key_the_credentials_cannot_be_read_and_it_says_so(petra: Rest) -> None:
    petra.send("POST", "/clusters", body())
    row = Cluster.objects.get(slug="south")

    with override_settings(SECRET_KEY="another" * 8), pytest.raises(Unreachable, match="another secret key"):
        open_gateway(row)


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]}, "users/0/user/exec"),
        ({"users": [{"name": "u", "user": {"tokenFile": "/etc/passwd"}}]}, "users/0/user/tokenFile"),
        (
            {"clusters": [{"name": "c", "cluster": {"certificate-authority": "/etc/passwd"}}]},
            "clusters/0/cluster/certificate-authority",
        ),
    ],
)
def test_programs_and_files_are_refused_with_their_place(
    petra: Rest, part: dict[str, Any], pointer: str
) -> None:
    refused = petra.send("POST", "/clusters", body(CONFIG | part))

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == f"#/spec/kubeconfig/{pointer}"
    assert not Cluster.objects.filter(slug="south").exists()


@pytest.mark.parametrize("text", ["", "{", "[1]", "just words"])
def test_what_is_no_kubeconfig_is_refused(petra: Rest, text: str) -> None:
    refused = petra.send("POST", "/clusters", {"slug": "south", "spec": {"kubeconfig": text}})

    assert refused.status_code == 422


def test_a_slug_is_taken_once(petra: Rest) -> None:
    petra.send("POST", "/clusters", body())

    assert petra.send("POST", "/clusters", body()).status_code == 409


def test_other_credentials_are_another_generation_and_null_keeps_them(petra: Rest) -> None:
    petra.send("POST", "/clusters", body())
    before = Cluster.objects.get(slug="south").kubeconfig_sealed
    kept = petra.send("PATCH", "/clusters/south", {"name": "S", "spec": {"kubeconfig": None}}, match='"1"')
    assert (kept.status_code, generation(kept)) == (200, 2)
    assert Cluster.objects.get(slug="south").kubeconfig_sealed == before

    other = yaml.safe_dump(CONFIG | {"users": [{"name": "u", "user": {"token": "other"}}]})
    changed = petra.send("PATCH", "/clusters/south", {"spec": {"kubeconfig": other}}, match='"2"')

    assert generation(changed) == 3
    assert Cluster.objects.get(slug="south").kubeconfig_sealed != before


def test_a_cluster_of_the_operators_file_takes_no_other_credentials(petra: Rest, cast: Cast) -> None:
    Cluster.objects.filter(pk=cast.vision.cluster_id).update(kubeconfig_path="/etc/kubeconfig")
    wish = {"spec": {"kubeconfig": yaml.safe_dump(CONFIG)}}

    refused = petra.send("PATCH", "/clusters/north", wish, match="*")

    assert refused.status_code == 409


def test_a_cluster_goes_while_nothing_was_set_up_there(petra: Rest) -> None:
    petra.send("POST", "/clusters", body())
    assert petra.send("DELETE", "/clusters/south").status_code == 428

    assert petra.send("DELETE", "/clusters/south", match='"1"').status_code == 204
    refused = petra.send("DELETE", "/clusters/north", match="*")

    assert refused.status_code == 409
    assert refused.json()["code"] == "has_dependents"
    assert not Cluster.objects.filter(slug="south").exists()


def test_a_rehearsal_registers_nothing(petra: Rest) -> None:
    told = petra.send("POST", "/clusters?dry_run=true", body())

    assert told.json()["dry_run"] is True
    assert not Cluster.objects.filter(slug="south").exists()


@pytest.mark.parametrize("who", ["rosa", "ann"])
def test_nobody_but_platform_engineers_registers(cast: Cast, who: str) -> None:
    person: User = getattr(cast, who)

    assert Rest(person).send("POST", "/clusters", body()).status_code == 403
