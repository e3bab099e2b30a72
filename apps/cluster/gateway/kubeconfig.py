"""What a kubeconfig may contain before anything acts on it. Pure.

A kubeconfig can name programs to run, which would run with the workers' rights: never accepted. Files it may
name, because only the operator of the workers can register one. What came over the network may name neither
files nor ways around: it leads to a cluster, by https, and to nothing that only this machine reaches.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from apps.cluster.gateway.addresses import server_problem

_PROGRAMS = ("exec", "auth-provider")
_FILES = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile", "token-file")),
}


MOST_MARKS = 4000
"""Characters that mean something to YAML; a kubeconfig of ten contexts has some 500."""
_MARKS = "[]{},:-?&*!|>#\n"


class NotYaml(ValueError):
    """The text is no YAML that a kubeconfig could be; the message says why."""


class _Loader(yaml.SafeLoader):
    """Plain YAML without references, which could expand without end."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse what only refers to something else."""
        if self.check_event(yaml.AliasEvent):
            raise NotYaml("It refers to itself with *; write it out.")
        found: yaml.Node | None = super().compose_node(parent, index)
        return found


def read(text: str) -> Any:
    """The document in a text; raises NotYaml. Rule: so much of it at most as a kubeconfig may need, because
    the parser's time grows with the square of its depth.
    """
    if sum(map(text.count, _MARKS)) > MOST_MARKS or text.count("[") + text.count("{") > MOST_MARKS // 40:
        raise NotYaml("It is far larger than a kubeconfig needs to be.")
    try:
        return yaml.load(text, _Loader)  # noqa: S506 a SafeLoader
    except NotYaml:
        raise
    # Beside its own errors the parser lets through whatever making a date, a number or a key fails with.
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise NotYaml("It is not YAML.") from error
    except RecursionError as error:
        raise NotYaml("It is nested too deeply.") from error


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
    return found + (_named_files(document) + _led_astray(document, allowed) if inline else [])


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
