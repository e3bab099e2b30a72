"""What a kubeconfig may contain before anything acts on it. Pure.

A kubeconfig can name programs to run, which would run with the workers' rights: never accepted. Files it may
name, because only the operator of the workers can register one.
"""

from collections.abc import Mapping
from typing import Any

_PROGRAMS = ("exec", "auth-provider")
_FILES = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile", "token-file")),
}


def problems(document: Any, *, inline: bool = False) -> list[str]:
    """Why this kubeconfig is refused, each with a JSON pointer; an empty list accepts it.

    `inline`: it came over the network, so it may name no file of ours either. Whatever is not shaped as a
    kubeconfig is refused, never guessed at.
    """
    if not isinstance(document, Mapping) or not document.get("clusters"):
        return ["/: not a kubeconfig: it names no cluster"]
    found = [
        f"/users/{index}/user/{key}: runs a program; use a token or certificate data"
        for index, user in _entries(document, "users", "user")
        for key in _PROGRAMS
        if key in user
    ]
    return found + (_named_files(document) if inline else [])


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


def _entries(document: Mapping[str, Any], part: str, inner: str) -> list[tuple[int, Mapping[str, Any]]]:
    listed = document.get(part) or []
    rows = listed if isinstance(listed, list) else []
    return [
        (index, entry[inner])
        for index, entry in enumerate(rows)
        if isinstance(entry, Mapping) and isinstance(entry.get(inner), Mapping)
    ]
