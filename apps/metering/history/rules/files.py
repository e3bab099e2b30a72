"""A past that was written to files (`python -m sandbox history`): its lines as runs and readings. Pure.

`events.jsonl`: {"time", "type", "resource", "object"} per change; `samples.jsonl`: {"until", "from", "step",
"count", "labels", "values"} per device, pod and piece of time: `count` moments, `step` seconds apart, and
each field's value at every one of them, or one number where it was the same. Lines of one `until` belong
together.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby

import orjson

from apps.metering.allocations.rules.claim_intervals import Body, Claim
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.reading import Batch
from apps.metering.telemetry.rules.sources.table import Table

_PODS, _CLAIMS = "pods", "resourceclaims.resource.k8s.io"
_WORK = {"jobs.batch": "Job", "statefulsets.apps": "StatefulSet"}
_PERSON = "allotment.dev/submitted-by"
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
    def person(self) -> str:
        """The username of whoever asked for it, by its annotation; empty: not said."""
        return str((self.body.get("metadata", {}).get("annotations") or {}).get(_PERSON, ""))

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


def pieces_of(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines of one piece of the past at once, in order of time."""
    return (list(piece) for _, piece in groupby(lines, key=lambda line: str(orjson.loads(line)["until"])))


def batch_of(piece: Iterable[bytes], until: datetime) -> Batch:
    """The readings of a piece up to a time.

    RULE: lines of one device that overlap tell of several pods on it, and have the same times. Lines with the
    same times are one table: so a device with two pods is put together, and a device that changed hands is
    not searched for moments that both have.
    """
    lines = [orjson.loads(line) for line in piece]
    until = min(until, datetime.fromisoformat(lines[0]["until"]))
    tables: dict[tuple[str, int], tuple[Table, list[float]]] = {}
    step = timedelta(0)
    for line in lines:
        key, step = (line["from"], line["count"]), timedelta(seconds=line["step"])
        if key not in tables:
            first = datetime.fromisoformat(line["from"])
            count = min(line["count"], (until - first) // step + 1)
            tables[key] = Table(_NAMES), [first.timestamp() + line["step"] * n for n in range(count)]
        table, times = tables[key]
        if times:
            for name, told in line["values"].items():
                column = told[: len(times)] if isinstance(told, list) else [told] * len(times)
                table.add(name, line["labels"], times, column)
    batch = Batch([], until, step)
    for table, _ in tables.values():
        blocks, readings = table.sorted()
        batch.blocks += blocks
        batch.readings += readings
    return batch
