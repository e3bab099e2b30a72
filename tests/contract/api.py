"""One check's hands: requests over HTTP, a namespace of its own, waiting, kubectl, and clearing up.

Speaks plain HTTP on purpose: a client library would hide the bytes that the contract is about.
"""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from tests.contract.answers import Answer, Body
from tests.contract.kinds import KINDS
from tests.contract.kubeconfig import Target
from tests.patience import within

logger = logging.getLogger(__name__)

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATIENCE = 90.0
"""Seconds: a controller is in no hurry when many namespaces change on a busy machine."""
_POLL = 0.1


@dataclass(frozen=True)
class Cluster:
    """What all checks of a run share: the way in, an open client, the letters of the run, kubectl."""

    target: Target
    http: httpx.Client
    run: str
    kubectl: Path | None
    scratch: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


class Api:
    """The server as one check sees it."""

    def __init__(self, cluster: Cluster, slug: str) -> None:
        self.cluster = cluster
        self._slug = slug
        self._http = cluster.http
        self._made: list[tuple[str, str]] = []
        self.namespace_labels: dict[str, str] = {}

    def name(self, word: str) -> str:
        """A name for a cluster-wide object: nobody else's, and alike in the observations of every run."""
        return f"{word}-{self._slug}-{self.cluster.run}"

    @cached_property
    def ns(self) -> str:
        """The check's namespace, made at first use; `namespace_labels` must be set before."""
        return self.namespace("ns", self.namespace_labels)

    def namespace(self, word: str, labels: Mapping[str, str] | None = None) -> str:
        """One more namespace, ready for pods: its default account exists."""
        name = self.name(word)
        answer = self.create("namespaces", {"metadata": {"name": name, "labels": dict(labels or {})}})
        assert answer.status == 201, answer.body
        self.until(lambda: self.read("serviceaccounts", "default", ns=name).status == 200)
        return name

    def as_bearer(self, token: str) -> Api:
        """The same check with somebody else's token; "" is nobody."""
        other = Api(self.cluster, self._slug)
        other._http = self.cluster.target.open(token)
        other.__dict__["ns"] = self.ns
        return other

    def request(self, method: str, path: str, **options: Any) -> Answer:
        """One HTTP request; `json`, `content`, `params`, `headers` as httpx takes them."""
        response = self._http.request(method, path, **options)
        kind = response.headers.get("content-type", "")
        body = response.json() if "json" in kind and response.content else response.text
        return Answer(response.status_code, body, tuple(response.headers.get_list("warning")))

    def url(self, resource: str, name: str = "", *, ns: str | None = None, sub: str = "") -> str:
        """Where an object or a list is served; `ns="*"` is every namespace."""
        kind = KINDS[resource]
        space = f"/namespaces/{ns or self.ns}" if kind.namespaced and ns != "*" else ""
        return f"{kind.prefix}{space}/{resource}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")

    def create(self, resource: str, body: Body, *, ns: str | None = None, **params: str) -> Answer:
        """POST; the server's kind is filled in, and a cluster-wide object is removed after the check."""
        kind = KINDS[resource]
        full = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        answer = self.request("POST", self.url(resource, ns=ns), json=full, params=params)
        if answer.status == 201 and not kind.namespaced and isinstance(answer.body, dict):
            made = answer.body.get("metadata", {}).get("name")
            if made:
                self._made.append((resource, made))
        return answer

    def read(self, resource: str, name: str, *, ns: str | None = None, **params: str) -> Answer:
        """GET one object."""
        return self.request("GET", self.url(resource, name, ns=ns), params=params)

    def list(self, resource: str, *, ns: str | None = None, **params: str) -> Answer:
        """GET a list."""
        return self.request("GET", self.url(resource, ns=ns), params=params)

    def replace(self, resource: str, name: str, body: Body, *, sub: str = "", **params: str) -> Answer:
        """PUT."""
        kind = KINDS[resource]
        full = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        return self.request("PUT", self.url(resource, name, sub=sub), json=full, params=params)

    def patch(
        self,
        resource: str,
        name: str,
        patch: Any,
        *,
        media: str = MERGE,
        ns: str | None = None,
        sub: str = "",
        **params: str,
    ) -> Answer:
        """PATCH; a merge patch unless another media type is named."""
        content = patch if isinstance(patch, str) else json.dumps(patch)
        headers = {"Content-Type": media}
        url = self.url(resource, name, ns=ns, sub=sub)
        return self.request("PATCH", url, content=content, headers=headers, params=params)

    def apply(
        self, resource: str, name: str, body: Body, *, manager: str = "one", sub: str = "", **params: str
    ) -> Answer:
        """Server-side apply by a field manager."""
        kind = KINDS[resource]
        metadata = {"name": name, **body.get("metadata", {})}
        full = {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}
        answer = self.patch(resource, name, full, media=APPLY, sub=sub, fieldManager=manager, **params)
        if answer.status == 201 and not kind.namespaced:
            self._made.append((resource, name))
        return answer

    def delete(
        self, resource: str, name: str = "", *, ns: str | None = None, body: Body | None = None, **params: str
    ) -> Answer:
        """DELETE an object, or without a name the collection."""
        options: dict[str, Any] = {"json": body} if body else {}
        return self.request("DELETE", self.url(resource, name, ns=ns), params=params, **options)

    @contextmanager
    def watch(self, resource: str, *, ns: str | None = None, **params: str) -> Iterator[Iterator[Body]]:
        """An open watch; iterate for its events. It ends by itself after `timeoutSeconds`, 10 unless told."""
        params = {"watch": "true", "timeoutSeconds": "10", **params}
        url = self.url(resource, ns=ns)
        with self._http.stream("GET", url, params=params) as response:
            yield (json.loads(line) for line in response.iter_lines() if line)

    def until(self, reached: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Ask again until the answer is truthy; the last answer otherwise fails the check."""
        deadline = within(seconds)
        while True:
            answer = reached()
            if answer:
                return answer
            assert time.monotonic() < deadline, f"not reached within {seconds:.0f} s"
            time.sleep(_POLL)

    def wait(
        self,
        resource: str,
        name: str,
        reached: Callable[[Body], Any],
        *,
        seconds: float = PATIENCE,
        ns: str | None = None,
    ) -> Body:
        """The object as soon as it exists and is as wanted; says how it was when time ran out."""
        deadline = within(seconds)
        while True:
            answer = self.read(resource, name, ns=ns)
            if answer.status == 200 and reached(answer.body):
                return dict(answer.body)
            if time.monotonic() > deadline:
                raise AssertionError(f"{resource} {name} after {seconds:.0f} s: {_brief(answer)}")
            time.sleep(_POLL)

    def gone(self, resource: str, name: str, seconds: float = PATIENCE, *, ns: str | None = None) -> bool:
        """True once the object is no longer there; fails when it stays."""
        self.until(lambda: self.read(resource, name, ns=ns).status == 404, seconds)
        return True

    def run_kubectl(self, *arguments: str, stdin: str = "", seconds: float = 40.0) -> Ran:
        """Kubectl in the check's namespace."""
        assert self.cluster.kubectl is not None
        command = [
            str(self.cluster.kubectl),
            f"--kubeconfig={self.cluster.target.kubeconfig}",
            f"--cache-dir={self.cluster.scratch / 'kubectl'}",
            f"--namespace={self.ns}",
            *arguments,
        ]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def clean(self) -> None:
        """Ask for the removal of what the check made, last made first; does not wait."""
        for resource, name in reversed(self._made):
            answer = self.delete(resource, name, propagationPolicy="Background")
            if answer.status not in (200, 202, 404):
                logger.warning("%s %s was not removed: %s", resource, name, answer.body)


def _brief(answer: Answer) -> str:
    shown = answer.body
    if isinstance(shown, dict):
        shown = {key: shown[key] for key in ("spec", "status", "message") if key in shown}
    return f"{answer.status} {json.dumps(shown)[:1500]}"
