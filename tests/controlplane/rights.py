"""Compares the rights that the chart grants the product with those it used, as the audit log tells.

Granted but never used is too much, refused is too little: both must be none. Only calls by the product's own
client count; what tests do with its kubeconfig proves nothing. Pure, but for reading the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests import yamls

ROLE, ACCOUNT = "allotment-controller", "system:serviceaccount:allotment-system:allotment-controller"
CLIENT, TESTS_CLIENT = "allotment", "allotment-test"
"""User agents: of the product's own client, and of the same client where a test itself asks (fixtures.py)."""
CANARY = "allotment-canary"
"""Applied as a dry run, always refused by a policy, so never there (`services.capabilities`)."""

_WRITES = "patch"
_FLUX = (("helm.toolkit.fluxcd.io", "helmreleases"), ("source.toolkit.fluxcd.io", "helmrepositories"))
_FORWARD = ("pods/portforward", "get")
_BIND = ("rbac.authorization.k8s.io", "clusterroles", "bind")


class Right(NamedTuple):
    """One verb on one kind of object; `name` where the role names the only objects it is for."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f"/{self.name}" if self.name else "")


UNSHOWN = frozenset(
    Right("jobset.x-k8s.io", "jobsets", verb) for verb in ("list", "watch", "create", "patch", "delete")
)
"""What nothing shows: no plane of the tests has JobSet yet."""
ON_TRUST = (
    frozenset(Right(group, resource, verb) for group, resource in _FLUX for verb in ("watch", "delete"))
    | {Right("", "nodes", verb) for verb in ("get", "patch")}
    | {Right(*_BIND, "allotment-tenant-shell")}
    | UNSHOWN
)
"""What the gate's suites do not use: `tests/isolation` does, with the real Flux and moving nodes, for which
the gate has no time. `make verify SUITE=rights` runs that too and takes only `UNSHOWN` on trust.
"""


@dataclass
class Use:
    """What the product did: how often each right was used, and which call was refused."""

    used: dict[Right, int] = field(default_factory=dict)
    refused: dict[Right, int] = field(default_factory=dict)

    def count(self, right: Right, *, allowed: bool) -> None:
        """One more call."""
        seen = self.used if allowed else self.refused
        seen[right] = seen.get(right, 0) + 1

    def stored(self) -> dict[str, list[list[str | int]]]:
        """As JSON keeps it: rows of group, resource, verb, name and calls."""
        return {
            name: [[*right, calls] for right, calls in sorted(seen.items())]
            for name, seen in (("used", self.used), ("refused", self.refused))
        }

    @classmethod
    def together(cls, parts: Iterable[Mapping[str, Any]]) -> Use:
        """The sum of what was stored."""
        total = cls()
        for part in parts:
            for name, seen in (("used", total.used), ("refused", total.refused)):
                for *right, calls in part[name]:
                    seen[Right(*right)] = seen.get(Right(*right), 0) + calls
        return total


def granted(documents: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The rights of every role that the chart binds to the product's account."""
    found = list(documents)
    account = ACCOUNT.removeprefix("system:serviceaccount:").split(":")
    bound = {
        (body["roleRef"]["kind"], body["roleRef"]["name"])
        for body in found
        if body["kind"].endswith("RoleBinding")
        for subject in body["subjects"]
        if [subject.get("namespace"), subject["name"]] == account
    }
    rules = [
        rule for body in found if (body["kind"], body["metadata"]["name"]) in bound for rule in body["rules"]
    ]
    return {
        Right(group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def use(lines: Iterable[str]) -> Use:
    """What the product's client did, out of the lines of audit logs."""
    found = Use()
    for line in lines:
        event = json.loads(line)
        about = event.get("objectRef")
        is_ours = event["user"].get("username") == ACCOUNT and event.get("userAgent") == CLIENT
        if about and is_ours and event["stage"] != "RequestReceived":
            allowed = event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
            for right in _rights(event, about):
                found.count(right, allowed=allowed)
    return found


def _rights(event: Mapping[str, Any], about: Mapping[str, str]) -> Iterator[Right]:
    resource = "/".join(part for part in (about["resource"], about.get("subresource", "")) if part)
    group, verb, name = about.get("apiGroup", ""), event["verb"], about.get("name", "")
    # Of Secrets the role names the only one that may be read; those of its own it writes under any name.
    yield Right(group, resource, verb, name if (resource, verb) == ("secrets", "get") else "")
    if (resource, verb) == _FORWARD:
        # A WebSocket is a GET; since Kubernetes 1.35 the server asks for create too, and does not log that.
        yield Right(group, resource, "create")
    if verb == _WRITES and (event.get("responseStatus", {}).get("code") == 201 or name == CANARY):
        # Server-side apply of what is not there needs both, and before any policy is asked; the log tells
        # only the first.
        yield Right(group, resource, "create")
        if resource == "rolebindings":
            yield Right(*_BIND, _role_of(name))


def _role_of(binding: str) -> str:
    """Which role a binding of the product is for: its name tells, the log has no bodies."""
    for role in ("member", "lead", "shell"):
        if binding.endswith(f"-{role}"):
            return f"allotment-tenant-{role}"
    return "allotment-tenant-probe"


def compare(chart: set[Right], seen: Use, on_trust: Iterable[Right] = ()) -> tuple[set[Right], set[Right]]:
    """(granted but unused, needed but missing); what is taken `on_trust` counts as used."""
    used = set(seen.used)
    unused = {right for right in chart if right not in used} - set(on_trust)
    anyone = {right._replace(name="") for right in chart}
    missing = {right for right in seen.refused if right not in anyone and right not in chart}
    return unused, missing


def report(chart: set[Right], seen: Use, on_trust: Iterable[Right] = ()) -> str:
    """A table for the documents: kind, verbs, calls."""
    trusted = set(on_trust)
    kinds: dict[str, list[Right]] = {}
    for right in sorted(chart):
        kinds.setdefault(f"{right.resource}.{right.group}".rstrip("."), []).append(right)
    lines = ["| kind | verb: calls |", "|---|---|"]
    for kind, rights in kinds.items():
        cells = [
            f"{right.verb}{f' {right.name}' if right.name else ''}: "
            + ("on trust" if right in trusted and right not in seen.used else str(seen.used.get(right, 0)))
            for right in rights
        ]
        lines.append(f"| `{kind}` | {', '.join(cells)} |")
    return "\n".join(lines)


def judge(seen: Use, documents: Iterable[Mapping[str, Any]], on_trust: frozenset[Right]) -> Verdict:
    """The rights of the chart against what was used of them."""
    chart = granted(documents)
    trusted = chart & on_trust - set(seen.used)
    return Verdict(chart, seen, trusted, *compare(chart, seen, trusted))


@dataclass(frozen=True)
class Verdict:
    """What was granted, used, taken on trust, too much and too little."""

    chart: set[Right]
    seen: Use
    trusted: set[Right]
    unused: set[Right]
    missing: set[Right]

    @property
    def holds(self) -> bool:
        """Whether the product has no right too much and none too little."""
        return bool(self.seen.used) and not self.unused and not self.missing

    @property
    def figures(self) -> dict[str, str]:
        """For a summary: how many, and which they are where there should be none."""
        named = {
            "taken on trust": self.trusted,
            "granted but unused": self.unused,
            "needed but missing": self.missing,
        }
        counted = {"rights": len(self.chart), "uses": sum(self.seen.used.values())}
        told = {
            name: ": ".join(filter(None, (str(len(which)), ", ".join(map(str, sorted(which))))))
            for name, which in named.items()
        }
        return {name: str(count) for name, count in counted.items()} | told

    @property
    def table(self) -> str:
        """Kind by kind, for the documents."""
        return report(self.chart, self.seen, self.trusted)


def chart_documents(path: Path) -> list[dict[str, Any]]:
    """The documents of rbac.yaml."""
    return yamls.documents(path.read_text())


def logs(folders: Iterable[Path]) -> Iterator[str]:
    """Every line of the audit logs given, or in the folders given."""
    for given in folders:
        for file in sorted(given.glob("*audit*.log")) if given.is_dir() else [given]:
            with file.open() as opened:
                yield from (line for line in opened if line.strip())
