"""G4: how often the product calls the API server, by the server's own audit log."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.audit import PRODUCT, Call
from bench.rig import Rig, until

SETTLE_SECONDS = 12.0
"""Longer than a sweep: whatever would still come has come."""


def calls(rig: Rig, *, requests: int) -> Iterator[dict[str, Any]]:
    """Calls per notebook from its request until everything rests, and per resync of all of them unchanged."""
    rig.clear()
    rig.audit.new()
    for number in range(requests):
        rig.submit(f"count-{number}")
    until(lambda: rig.alive(synced=True) == requests, "every notebook to be applied", 120)
    provision = _settled(rig)
    rig.audit.new()
    looked_at = _look_at_all(rig)
    resync = _settled(rig)
    if looked_at != requests or rig.alive(synced=True) != requests:
        raise AssertionError(f"{looked_at} of {requests} rows were looked at again")
    writes, reads = ([c for c in provision if c.is_write], [c for c in provision if c.is_read])
    yield {
        "suite": "g4", "what": "calls to the API server per request, and per resync of all of them unchanged",
        "n": requests,
        "writes_per_request": len(writes) / requests, "goal_writes": "<= 5", "aim_writes": 3,
        "reads_per_request": len(reads) / requests, "goal_reads": 0,
        "writes_per_unchanged_resync": sum(c.is_write for c in resync), "goal_resync": 0,
        "reads_per_unchanged_resync": sum(c.is_read for c in resync),
        "writes": _by_kind(writes), "reads": _by_kind(reads),
    }  # fmt: skip
    rig.clear()


def _settled(rig: Rig) -> Sequence[Call]:
    """The product's calls on objects until nothing moves any more, and one sweep more."""
    rig.quiet()
    time.sleep(SETTLE_SECONDS)
    return [call for call in rig.audit.new() if call.user == PRODUCT and (call.is_write or call.is_read)]


def _look_at_all(rig: Rig) -> int:
    """Every row is due at once, as after a long sleep; answers how many were reconciled."""
    alive = "from workloads_workload where deleted_at is null"
    before = rig.rows.execute(f"select id, fence {alive}".encode()).fetchall()
    rig.rows.execute("update workloads_workload set due_at = now() where deleted_at is null")
    due = f"select count(*) {alive} and due_at <= now()".encode()
    until(lambda: rig.rows.execute(due).fetchone() == (0,), "every row to be looked at", 60)
    after: dict[Any, int] = dict(rig.rows.execute(f"select id, fence {alive}".encode()).fetchall())
    return sum(after[pk] > fence for pk, fence in before)


def _by_kind(found: Sequence[Call]) -> dict[str, int]:
    return dict(Counter(f"{call.verb} {call.resource}" for call in found).most_common())
