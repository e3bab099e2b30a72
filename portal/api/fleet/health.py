"""REST of the product's own parts: what is wrong and its cure, which processes live. Reads only."""

from datetime import UTC, datetime
from typing import Annotated, Literal, TypedDict

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import NotFound
from apps.web.stores.telling import Part
from portal.api.base.views import ApiView
from portal.api.declared.declaring import answers, named, refuses
from portal.operate import health
from portal.operate.findings import Finding, State
from portal.operate.health import Kind, Report
from portal.operate.lags import Lag
from portal.operate.queues import Queue


class HealthFindingBody(TypedDict):
    """One check."""

    name: str
    state: Annotated[State, "note: worth knowing; nothing is broken."]
    seen: Annotated[str, "What was seen, in words."]
    cure: Annotated[str | None, "What to do; null where all is well."]
    local: Annotated[bool, "It holds for `host` alone, such as its disk and its settings."]


class HealthProcessBody(TypedDict):
    """A process that told within 30 s that it lives."""

    host: str
    pid: int
    since: datetime
    streams: Annotated[int | None, "Live streams that are open in it; null: it serves none."]


class HealthPartBody(TypedDict):
    """A kind of process of the product."""

    kind: Annotated[str, "web, worker, beat, watcher or door."]
    processes: Annotated[list[HealthProcessBody], "Empty: it is missing."]


class HealthQueueBody(TypedDict):
    """Tasks that wait for a worker."""

    name: Annotated[str, "urgent: what people ask for; later: what clusters tell."]
    length: int
    oldest_seconds: Annotated[int, "For how long the oldest has waited; 0 where none waits."]


class HealthClusterBody(TypedDict):
    """How old what is known of a cluster is, in seconds."""

    cluster: str
    seen_seconds: Annotated[int | None, "Since it last answered; null: it never did."]
    telemetry_seconds: Annotated[int | None, "Back to where its telemetry is read; null: it never was."]
    ledger_seconds: Annotated[int | None, "Back to where its ledger is rolled up; null: nothing is yet."]


class HealthBody(TypedDict):
    """How the installation does, as one of its web processes sees it."""

    object: Literal["health"]
    well: Annotated[bool, "Nothing is wrong."]
    checked_at: Annotated[datetime, "Several who ask within 5 s may get the same."]
    host: Annotated[str, "The machine of the web process that looked."]
    findings: Annotated[list[HealthFindingBody], "What is wrong first, then what is worth knowing."]
    parts: Annotated[list[HealthPartBody] | None, "Null: Redis does not answer, so it is not known."]
    queues: Annotated[list[HealthQueueBody] | None, "Null: as parts."]
    clusters: Annotated[list[HealthClusterBody] | None, "Null: their tables cannot be read."]


class HealthView(ApiView):
    """The health of the product's own parts."""

    scope_group = ScopeGroup.CLUSTERS

    @named("health_retrieve")
    @answers(200, HealthBody)
    @refuses("not_found")
    def get(self, _request: Request) -> Response:
        """For platform engineers and auditors: what is wrong, its cure, which processes live, what waits."""
        if not self.actor.sees_everything:
            raise NotFound
        return Response(health_body(health.lookout.report(timezone.now())))


def health_body(report: Report) -> HealthBody:
    """A report as REST shows it: without what others said."""
    return {
        "object": "health",
        "well": not report.wrong,
        "checked_at": report.at,
        "host": report.host,
        "findings": [_finding(finding) for finding in report.findings],
        "parts": None if report.kinds is None else [_part(kind) for kind in report.kinds],
        "queues": None if report.queues is None else [_queue(queue) for queue in report.queues],
        "clusters": None if report.clusters is None else [_cluster(lag) for lag in report.clusters],
    }


def _finding(finding: Finding) -> HealthFindingBody:
    return {
        "name": finding.name, "state": finding.state, "seen": finding.seen, "cure": finding.cure or None,
        "local": finding.local,
    }  # fmt: skip


def _part(kind: Kind) -> HealthPartBody:
    return {"kind": kind.name, "processes": [_process(part) for part in kind.processes]}


def _process(part: Part) -> HealthProcessBody:
    streams, since = part.gauges.get("streams"), datetime.fromtimestamp(part.since, UTC)
    return {
        "host": part.host,
        "pid": part.pid,
        "since": since,
        "streams": None if streams is None else int(streams),
    }


def _queue(queue: Queue) -> HealthQueueBody:
    return {"name": queue.name, "length": queue.length, "oldest_seconds": int(queue.lag)}


def _cluster(lag: Lag) -> HealthClusterBody:
    return {
        "cluster": lag.cluster,
        "seen_seconds": int(lag.seen) if lag.answered else None,
        "telemetry_seconds": int(lag.telemetry) if lag.heard and lag.telemetry is not None else None,
        "ledger_seconds": None if lag.ledger is None else int(lag.ledger),
    }
