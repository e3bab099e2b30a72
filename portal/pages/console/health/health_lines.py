"""The console's page of the product's own parts: findings, processes, figures. Reads only."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.web.stores.telling import LIFE_SECONDS, Part
from portal.operate import guides, health
from portal.operate.findings import NOTE, OK, WRONG, Finding
from portal.operate.health import Kind
from portal.pages.console.fleet.capacity import TOPICS

PARTS = frozenset({"health"})
EVERY_SECONDS = 15
"""How often an open page asks again: nothing publishes how the parts do."""
_LOOKS = {
    WRONG: ("wrong", "octagon-alert", "bad"),
    NOTE: ("worth knowing", "info", "warn"),
    OK: ("well", "circle-check", "good"),
}
_PLACES = {
    "telemetry": ("console-telemetry", "Telemetry"),
    "audit record": ("console-audit", "Audit"),
    "engineers": ("console-users", "Users"),
    "watch": ("console", "Fleet"),
}
"""The console's page with more of it, by a check's name or its first word."""
QUEUES = {"urgent": "what people ask for", "later": "what clusters tell"}


@dataclass(frozen=True)
class Line:
    """A finding as the table shows it; `url` and `place` are the console's page with more of it, or empty,
    and `words` what others said (a cluster, an error).
    """

    finding: Finding
    word: str
    icon: str
    tone: str
    guide: str
    url: str
    place: str
    words: str


@dataclass(frozen=True)
class Row:
    """A process as the table shows it; of a kind that is missing, `part` is None."""

    kind: Kind
    part: Part | None
    since: datetime | None
    streams: int | None


def page(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """The last report of this web process. Raises NotFound for who sees not all."""
    if not actor.sees_everything:
        raise NotFound
    report = health.lookout.report(now)
    lines = [line_of(finding, is_platform=actor.is_platform) for finding in report.findings]
    return {
        "report": report,
        "verdict": verdict(report.wrong, report.notes),
        "lines": [line for line in lines if line.finding.state != OK],
        "well": [line for line in lines if line.finding.state == OK],
        "rows": None if report.kinds is None else [row for kind in report.kinds for row in rows_of(kind)],
        "queues": [(queue, QUEUES[queue.name]) for queue in report.queues or ()],
        "telemetry_step": settings.CONFIG.telemetry_step_seconds,
        "life": LIFE_SECONDS,
        "every": EVERY_SECONDS,
        "now": now,
        "live_topics": TOPICS,
    }


def verdict(wrong: int, notes: int) -> str:
    """How it all stands, in one line."""
    if not wrong and not notes:
        return "All is well."
    first = {0: "Nothing is wrong", 1: "1 thing is wrong"}.get(wrong, f"{wrong} things are wrong")
    return f"{first}, {notes} worth knowing." if notes else f"{first}."


def line_of(finding: Finding, *, is_platform: bool) -> Line:
    """How a finding is shown. What others said is for platform engineers alone."""
    known = finding.name if finding.name in _PLACES else finding.name.partition(" ")[0]
    where, place = _PLACES.get(known, ("", ""))
    url = reverse(where) if where else ""
    words = finding.told if is_platform else ""
    return Line(finding, *_LOOKS[finding.state], guides.of(finding.name), url, place, words)


def rows_of(kind: Kind) -> list[Row]:
    """Every process of a kind; one row that says so where none lives."""
    return [_row(kind, part) for part in kind.processes] or [Row(kind, None, None, None)]


def _row(kind: Kind, part: Part) -> Row:
    streams = part.gauges.get("streams")
    return Row(kind, part, datetime.fromtimestamp(part.since, UTC), None if streams is None else int(streams))
