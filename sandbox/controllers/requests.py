"""What a pod asks of a node or a queue: totals of its containers, counted as `amounts` counts.

Pure. Limits stand in for missing requests; init containers count by their largest, side-cars add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sandbox.api.meta.objects import Obj
from sandbox.controllers.amounts import amount

Requests = dict[str, int]
NO_DEFAULTS: Mapping[str, Mapping[str, str]] = {}


def container_totals(container: Obj, defaults: Mapping[str, Mapping[str, str]] = NO_DEFAULTS) -> Requests:
    """One container's requests; a limit without a request is one.

    `defaults` are a LimitRange's for containers, `default` and `defaultRequest`; what is stated wins.
    """
    resources = container.get("resources") or {}
    limits = {**defaults.get("default", {}), **(resources.get("limits") or {})}
    asked = {**limits, **defaults.get("defaultRequest", {}), **(resources.get("requests") or {})}
    return {name: amount(name, text) for name, text in asked.items()}


def pod_requests(spec: Obj, defaults: Mapping[str, Mapping[str, str]] = NO_DEFAULTS) -> Requests:
    """The pod's effective requests: max(sum of containers and side-cars, largest init container) plus
    overhead.
    """
    running: Counter[str] = Counter()
    peak: Requests = {}
    for container in spec.get("initContainers") or ():
        totals = container_totals(container, defaults)
        if container.get("restartPolicy") == "Always":
            running.update(totals)
            totals = dict(running)
        else:
            totals = {name: totals.get(name, 0) + running[name] for name in {*totals, *running}}
        peak = {name: max(peak.get(name, 0), totals.get(name, 0)) for name in {*peak, *totals}}
    for container in spec.get("containers") or ():
        running.update(container_totals(container, defaults))
    total = {name: max(running[name], peak.get(name, 0)) for name in {*running, *peak}}
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, 0) + amount(name, text)
    return total


def add(into: Requests, more: Mapping[str, int], sign: int = 1) -> None:
    """Add (or with -1 take away) requests in place."""
    for name, value in more.items():
        into[name] = into.get(name, 0) + sign * value


def total(parts: Iterable[Mapping[str, int]]) -> Requests:
    """The sum of several requests."""
    found: Requests = {}
    for part in parts:
        add(found, part)
    return found
