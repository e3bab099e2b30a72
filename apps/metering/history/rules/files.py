"""A past that was written to files (`python -m sandbox history`): its lines as runs and readings. Pure.

`events.jsonl`: {"time", "type", "resource", "object"} per change; `samples.jsonl`: {"time", "labels",
"values"} per device, pod and step.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

import orjson

from apps.metering.allocations.rules.claim_intervals import Body, Claim
from apps.metering.telemetry.rules.sources import fields
from apps.metering.telemetry.rules.sources.naming import LabelNames, Part, device_of, part_of, pod_of
from apps.metering.telemetry.rules.sources.reading import Reading, micros

_PODS, _CLAIMS = "pods", "resourceclaims.resource.k8s.io"
_WORK = {"jobs.batch": "Job", "statefulsets.apps": "StatefulSet"}
_NAMES = LabelNames()


@dataclass
class Work:
    """A Job or StatefulSet that held devices: its last state, and what its pods claimed."""

    uid: str
    kind: str
    namespace: str
    name: str
    asked_at: datetime
    body: Body = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """The true one of a Job's final conditions: Complete or Failed; empty while it goes on."""
        conditions = (self.body.get("status") or {}).get("conditions") or ()
        found = {c["type"] for c in conditions if c.get("status") == "True"}
        return next((name for name in ("Complete", "Failed") if name in found), "")


@dataclass
class _Seen:
    body: Body
    gone_at: datetime | None = None
    released: Body = field(default_factory=dict)


def work_of(lines: Iterable[bytes]) -> list[Work]:
    """Everything that held a device, in the order in which it was asked for."""
    pods: dict[str, _Seen] = {}
    claims: dict[str, _Seen] = {}
    work: dict[str, Work] = {}
    for line in lines:
        event = orjson.loads(line)
        resource, body = event["resource"], event["object"]
        at = datetime.fromisoformat(event["time"])
        if resource in (_PODS, _CLAIMS):
            _see(pods if resource == _PODS else claims, event["type"], body, at)
        elif resource in _WORK:
            meta = body["metadata"]
            found = work.setdefault(
                meta["uid"], Work(meta["uid"], _WORK[resource], meta["namespace"], meta["name"], at)
            )
            found.body = body
    for uid, seen in claims.items():
        _hand_over(uid, seen, pods, work)
    return sorted((w for w in work.values() if w.claims), key=lambda w: (w.asked_at, w.uid))


def _see(known: dict[str, _Seen], change: str, body: Body, at: datetime) -> None:
    uid = body["metadata"]["uid"]
    seen = known.setdefault(uid, _Seen(body))
    held = (seen.body.get("status") or {}).get("allocation")
    if held and not (body.get("status") or {}).get("allocation"):
        # The server clears the allocation before it deletes the claim.
        seen.released = {"allocation": held, "at": at.isoformat()}
    seen.body = body
    if change == "DELETED":
        seen.gone_at = at


def _hand_over(uid: str, seen: _Seen, pods: Mapping[str, _Seen], work: Mapping[str, Work]) -> None:
    pod = pods.get(_controller(seen.body))
    owner = work.get(_controller(pod.body)) if pod else None
    if pod is None or owner is None:
        return
    body = {**seen.body, **({"released": seen.released} if seen.released else {})}
    owner.claims.append(Claim(uid, owner.uid, body, seen.gone_at, pod.body, pod.gone_at))


def _controller(body: Body) -> str:
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def cut(claims: Iterable[Claim], ends: datetime) -> list[Claim]:
    """What is still held at the end of the past is let go there: nobody knows what came after."""
    return [replace(claim, gone_at=min(claim.gone_at or ends, ends)) for claim in claims]


def readings_of(lines: Iterable[bytes], *, until: datetime) -> Iterator[list[Reading]]:
    """The readings of each step up to a time, in order of time."""
    parsed = (orjson.loads(line) for line in lines)
    for time, found in groupby(parsed, key=lambda line: str(line["time"])):
        at = datetime.fromisoformat(time)
        if at > until:
            return
        yield _step(list(found), micros(at))


def _step(lines: list[dict[str, Any]], ts: int) -> list[Reading]:
    devices: dict[tuple[str, int, int, str], dict[Part, fields.Raw]] = {}
    labels: dict[Part, Mapping[str, str]] = {}
    for line in lines:
        part = part_of(line["labels"], _NAMES)
        if part is not None:
            profile = line["labels"].get("GPU_I_PROFILE", "")
            devices.setdefault((*part[:3], profile), {}).setdefault(part, _row(part, line["values"]))
            labels.setdefault(part, line["labels"])
    found = []
    for parts in devices.values():
        first = next(iter(parts))
        pods = tuple(pod for part in parts if (pod := pod_of(part)))
        row = fields.shared(list(parts.values())) if len(parts) > 1 else parts[first]
        found.append(Reading(device_of(first, labels[first], pods), ts, fields.values(row)))
    return found


def _row(part: Part, values: Mapping[str, float]) -> fields.Raw:
    row: fields.Raw = [None] * fields.WIDTH
    for name, value in values.items():
        wanted = fields.FIELDS.get(name)
        if wanted is not None and not (wanted.column == fields.SMI and part[1] >= 0):
            fields.put(row, wanted, value)
    return row
