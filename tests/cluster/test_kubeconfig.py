"""A kubeconfig may not run programs."""

from typing import Any

import pytest

from apps.cluster.gateway.kubeconfig import problems

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


FILES = [
    ("clusters", "cluster", "certificate-authority"),
    ("users", "user", "client-certificate"),
    ("users", "user", "client-key"),
    ("users", "user", "tokenFile"),
]


@pytest.mark.parametrize(("part", "inner", "key"), FILES)
def test_what_came_over_the_network_may_name_no_file(part: str, inner: str, key: str) -> None:
    document = GOOD | {part: [{"name": "x", inner: {"server": "https://c", key: "/etc/passwd"}}]}

    assert problems(document) == []
    (text,) = problems(document, inline=True)
    assert text.startswith(f"/{part}/0/{inner}/{key}: names a file")


def test_what_is_misshapen_is_no_crash() -> None:
    assert problems({"clusters": "x", "users": [None, {"user": 3}]}, inline=True) == []
