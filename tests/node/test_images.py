"""Images that cannot be had, and those behind a password."""

import json

import pytest

from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause
from tests.node.asking import NOTEBOOK, PRIVATE, program
from tests.node.cluster import NodeCluster
from tests.node.images import recipes
from tests.workloads.on_plane import House, told_alike

pytestmark = [
    pytest.mark.node, pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(400)
]  # fmt: skip


def test_an_image_that_is_not_there(node_house: House) -> None:
    row = program(node_house, "wrong", "", image=f"{NOTEBOOK}-none")
    words = told_alike(node_house, row, Cause.IMAGE)
    assert words.startswith(f"Its image cannot be pulled: {NOTEBOOK}-none. The cluster says: ")
    assert "not found" in words


def test_a_private_image_wants_the_tenants_pull_secret(node_house: House, node_cluster: NodeCluster) -> None:
    """The secret stands on the namespace's default account, as an administrator puts it there."""
    refused = program(node_house, "refused", "print('hello')", image=PRIVATE)
    words = told_alike(node_house, refused, Cause.IMAGE)
    assert "authorization failed: no basic auth credentials" in words
    assert "then a lead of the team adds the login of its registry" in words
    node_house.act("delete", refused, keep_volumes=False)
    user, password = node_cluster.pull_account
    namespace, plane = f"--namespace={node_house.tenant.object_name}", node_house.plane
    plane.kubectl(
        "create", "secret", "docker-registry", "pull", namespace, f"--docker-server={recipes.REGISTRY}",
        f"--docker-username={user}", f"--docker-password={password}",
    )  # fmt: skip
    body = json.dumps({"imagePullSecrets": [{"name": "pull"}]})
    plane.kubectl("patch", "serviceaccount", "default", namespace, "--type=merge", "-p", body)
    row = program(node_house, "allowed", "print('hello')", image=PRIVATE)
    node_house.reaches(row, Phase.SUCCEEDED, 120)
