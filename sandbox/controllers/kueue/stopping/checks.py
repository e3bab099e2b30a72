"""Kueue's admission checks: which a workload must pass, how their states are kept, and what they say. Pure.

Source: Kueue v0.19, pkg/workload/admissionchecks.go, pkg/workload/evict and core/workload_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from sandbox.api.meta.objects import Obj, dig, parse_time, timestamp
from sandbox.controllers.conditions import is_true

BY_HAND = "sandbox.allotment.dev/by-hand"
"""`spec.controllerName` of a check that people answer: nothing else is simulated behind one."""
PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"


def named(queue: Obj) -> dict[str, frozenset[str]]:
    """The checks of a ClusterQueue, each with the flavors that it is for: all of them where it names none."""
    groups = dig(queue, "spec", "resourceGroups", default=[])
    every = frozenset(flavor["name"] for group in groups for flavor in group.get("flavors") or ())
    listed = dig(queue, "spec", "admissionChecksStrategy", "admissionChecks", default=[])
    return {check["name"]: frozenset(check.get("onFlavors") or ()) or every for check in listed}


def lacking(queue: Obj, known: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Of a ClusterQueue's checks those that are not there, and those that are not active, by name."""
    names = sorted(named(queue))
    missing = [name for name in names if name not in known]
    return missing, [name for name in names if name in known and not known[name]]


def is_active(check: Obj) -> bool:
    """Whether whoever answers an AdmissionCheck says that it works."""
    return is_true(check, "Active")


def required(queue: Obj, admission: Obj | None) -> list[str]:
    """What a workload must pass: with an `admission` the checks of its flavors, before it those of all."""
    checks = named(queue)
    if admission is None:
        groups = dig(queue, "spec", "resourceGroups", default=[])
        every = frozenset(flavor["name"] for group in groups for flavor in group.get("flavors") or ())
        return sorted(name for name, flavors in checks.items() if flavors >= every)
    held = {
        flavor for each in admission["podSetAssignments"] for flavor in (each.get("flavors") or {}).values()
    }
    return sorted(name for name, flavors in checks.items() if flavors & held)


def synced(states: Iterable[Obj], wanted: Iterable[str], now: datetime) -> list[Obj]:
    """The states of exactly the `wanted` checks by name; one that is new is pending."""
    known = {state["name"]: state for state in states}
    return [known.get(name) or _pending(name, "", now) for name in sorted(wanted)]


def are_ready(states: Iterable[Obj]) -> bool:
    """Whether every check has passed."""
    return all(state["state"] == READY for state in states)


def told(states: Iterable[Obj], word: str) -> str:
    """The checks in one state with their messages, as Kueue writes them; "" for none."""
    found = sorted((state for state in states if state["state"] == word), key=lambda each: str(each["name"]))
    if not found:
        return ""
    parts = [f'"{each["name"]}"' + (f" ({each['message']})" if each["message"] else "") for each in found]
    noun = "AdmissionChecks" if len(found) > 1 else "AdmissionCheck"
    return f"{noun} in {word} state: {'; '.join(parts)}"


def retry_at(states: Iterable[Obj]) -> datetime | None:
    """When the last of those that cannot pass now wants to be asked again; None where none says."""
    times = [
        parse_time(state["lastTransitionTime"]) + timedelta(seconds=int(state["requeueAfterSeconds"]))
        for state in states
        if state["state"] == RETRY and state.get("requeueAfterSeconds") is not None
    ]
    return max(times, default=None)


def reset(states: Iterable[Obj], now: datetime) -> list[Obj]:
    """After an eviction every check is asked again."""
    return [_asked_again(state, now) for state in states]


def _asked_again(state: Obj, now: datetime) -> Obj:
    if state["state"] == PENDING:
        return state
    fresh = _pending(state["name"], f"Reset to Pending after eviction. Previously: {state['state']}", now)
    if "requeueAfterSeconds" in state:
        fresh["requeueAfterSeconds"] = state["requeueAfterSeconds"]
    if state["state"] == RETRY:
        fresh["retryCount"] = int(state.get("retryCount", 0)) + 1
    return fresh


def _pending(name: str, message: str, now: datetime) -> Obj:
    return {"name": name, "state": PENDING, "message": message, "lastTransitionTime": timestamp(now)}
