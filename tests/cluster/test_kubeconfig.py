"""A kubeconfig may not run programs."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
import yaml

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import client
from apps.cluster.gateway.kubeconfig import problems
from tests.cluster.registering import CONFIG

GOOD: dict[str, Any] = {
    "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


def test_a_token_is_accepted() -> None:
    assert problems(GOOD) == []


@pytest.mark.parametrize("program", ["exec", "auth-provider"])
def test_a_program_is_refused_with_its_place(program: str) -> None:
    (text,) = problems(GOOD | {"users": [{"name": "u", "user": {program: {"command": "rm"}}}]})

    assert text.startswith(f"/users/0/user/{program}: runs a program")


@pytest.mark.parametrize("document", [None, [], "text", {}, {"clusters": []}])
def test_what_is_no_kubeconfig_is_refused(document: Any) -> None:
    assert problems(document) == ["/: not a kubeconfig: it names no cluster"]


PARTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
FILES = [
    ("clusters", "cluster", "certificate-authority"),
    ("users", "user", "client-certificate"),
    ("users", "user", "client-key"),
    ("users", "user", "tokenFile"),
]


@pytest.mark.parametrize(("part", "inner", "key"), FILES)
def test_what_came_over_the_network_may_name_no_file(part: str, inner: str, key: str) -> None:
    document = CONFIG | {part: [{"name": "x", inner: {"server": "https://c", key: "/etc/passwd"}}]}

    assert problems(document) == []
    (text,) = problems(document, inline=True)
    assert text.startswith(f"/{part}/0/{inner}/{key}: names a file")


def test_what_is_misshapen_is_refused_with_its_place() -> None:
    told = problems({"clusters": "x", "users": [None, {"name": "u", "user": 3}]}, inline=True)
    assert [text.partition(":")[0] for text in told] == [
        "/current-context", "/clusters", "/users/0", "/users/1/user", "/contexts",
    ]  # fmt: skip


PLACES: list[tuple[str | int, ...]] = [
    ("current-context",),
    *((part,) for part in PARTS),
    *((part, 0) for part in PARTS),
    *((part, 1) for part in PARTS),
    *((part, 0, key) for part, inner in PARTS.items() for key in ("name", inner)),
    *(("contexts", 0, "context", key) for key in ("cluster", "user", "namespace")),
    *(
        ("users", 0, "user", key)
        for key in ("token", "client-certificate-data", "client-key-data", "username")
    ),
    *(("clusters", 0, "cluster", key) for key in ("server", "certificate-authority-data", "tls-server-name")),
    ("clusters", 0, "cluster", "insecure-skip-tls-verify"),
]
KINDS: list[Any] = [None, 5, 1.5, True, "", "x", "é", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_whatever_is_accepted_makes_a_gateway_or_is_said_to_be_unusable(place: tuple[Any, ...]) -> None:
    """Else a worker, a watcher or somebody's page stumbles over it later."""
    for value in KINDS:
        document = deepcopy(CONFIG)
        at: Any = document
        for step in place[:-1]:
            at = at[step]
        if isinstance(at, list):
            at[place[-1] :] = [value]
        else:
            at[place[-1]] = value
        if not problems(document, inline=True):
            with suppress(Unreachable):
                client.for_text(yaml.safe_dump(document)).port_forward("a", "b", 1)
