"""What a kubeconfig may contain before anything acts on it. Pure.

A kubeconfig can name programs to run, which would run with the workers' rights: never accepted. Files it may
name, because only the operator of the workers can register one. What came over the network may name neither
files nor ways around: it leads to a cluster, by https, and to nothing that only this machine reaches.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.cluster.gateway.addresses import server_problem
from apps.web.shapes import plain_yaml
from apps.web.shapes.plain_yaml import NotYaml

__all__ = ["NotYaml", "problems", "read", "servers"]

_PROGRAMS = ("exec", "auth-provider")
_FILES = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile", "token-file")),
}
_PARTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_FLAGS = ("insecure-skip-tls-verify", "disable-compression")
_OTHERS = (*_PROGRAMS, "server", "extensions", "as-groups", "as-user-extra")
"""What is judged elsewhere, or by nobody here because nothing reads it."""

MOST_MARKS = 4000
"""Characters that mean something to YAML; a kubeconfig of ten contexts has some 500."""


def read(text: str) -> Any:
    """The document in a text; raises NotYaml."""
    return plain_yaml.read(text, what="a kubeconfig", most_marks=MOST_MARKS)


def problems(document: Any, *, inline: bool = False, allowed: Sequence[str] = ()) -> list[str]:
    """Why this kubeconfig is refused, each with a JSON pointer; an empty list accepts it.

    `inline`: it came over the network, so it may name no file of ours either, and no server but a
    cluster's (`allowed`: see `gateway.addresses`). Whatever is not shaped as a kubeconfig is refused,
    never guessed at.
    """
    if not isinstance(document, Mapping) or not document.get("clusters"):
        return ["/: not a kubeconfig: it names no cluster"]
    found = [
        f"/users/{index}/user/{key}: runs a program; use a token or certificate data"
        for index, user in _entries(document, "users", "user")
        for key in _PROGRAMS
        if key in user
    ]
    if not inline:
        return found
    return found + _misshapen(document) + _named_files(document) + _led_astray(document, allowed)


def _misshapen(document: Mapping[str, Any]) -> list[str]:
    """What the Kubernetes library would stumble over later, in a worker or under a page.

    Source: k8s.io/client-go/tools/clientcmd/api/v1 Config.
    """
    found = [] if isinstance(document.get("current-context"), str) else ["/current-context: is not text"]
    for part, inner in _PARTS.items():
        listed = document.get(part)
        if not isinstance(listed, list):
            found.append(f"/{part}: is not a list")
            continue
        for index, row in enumerate(listed):
            if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
                found.append(f"/{part}/{index}: has no name")
            elif not isinstance(row.get(inner), Mapping):
                found.append(f"/{part}/{index}/{inner}: is not an object")
    return found + [
        f"/{part}/{index}/{inner}/{key}: is not {'true or false' if key in _FLAGS else 'text'}"
        for part, inner in _PARTS.items()
        for index, entry in _entries(document, part, inner)
        for key, value in entry.items()
        if key not in _OTHERS and not isinstance(value, bool if key in _FLAGS else str)
    ]


def _named_files(document: Mapping[str, Any]) -> list[str]:
    return [
        f"/{part}/{index}/{inner}/{key}: names a file; put its content into {key}-data"
        if "ile" not in key
        else f"/{part}/{index}/{inner}/{key}: names a file; put the token into token"
        for part, (inner, keys) in _FILES.items()
        for index, entry in _entries(document, part, inner)
        for key in keys
        if key in entry
    ]


def _led_astray(document: Mapping[str, Any], allowed: Sequence[str]) -> list[str]:
    found = []
    for index, entry in _entries(document, "clusters", "cluster"):
        if problem := server_problem(entry.get("server"), allowed):
            found.append(f"/clusters/{index}/cluster/server: {problem}")
        if "proxy-url" in entry:
            words = "names a proxy; the operator of Allotment sets one for all clusters"
            found.append(f"/clusters/{index}/cluster/proxy-url: {words}")
    return found


def servers(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each server with its place; of a kubeconfig without problems."""
    entries = _entries(document, "clusters", "cluster")
    return [(f"/clusters/{index}/cluster/server", str(entry["server"])) for index, entry in entries]


def _entries(document: Mapping[str, Any], part: str, inner: str) -> list[tuple[int, Mapping[str, Any]]]:
    listed = document.get(part) or []
    rows = listed if isinstance(listed, list) else []
    return [
        (index, entry[inner])
        for index, entry in enumerate(rows)
        if isinstance(entry, Mapping) and isinstance(entry.get(inner), Mapping)
    ]
