"""What the pages of one workload show."""

import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import yaml
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone

from apps.accounts.actors import Credential
from apps.accounts.specs import Actor
from apps.cluster.objects.conditions import find
from apps.errors import DomainError
from apps.metering.allocations.selectors import devices_held
from apps.metering.billing.rules.two_prices import Split, cent
from apps.quotas.catalogue.selectors.price_book import price_at
from apps.quotas.specs import SharingMode
from apps.workloads import policies, registry
from apps.workloads.lifecycle.rules import log_tail
from apps.workloads.lifecycle.selectors import kept_logs
from apps.workloads.lifecycle.services import live, log_files
from apps.workloads.models import Workload
from apps.workloads.opening.rules import shell_use
from apps.workloads.opening.selectors import access, ide_use, shell_setup
from apps.workloads.selectors import reading, rerun, working_hours
from apps.workloads.specs import OpenTo, Phase, WorkloadSpec
from apps.workloads.status import last_run, protection, readiness, replicas
from apps.workloads.status.derivation import KUEUE_PATIENCE
from apps.workloads.templates.selectors.catalogue import names_of, usable_by
from apps.workloads.waiting.rules.situation import Cause, Explanation
from apps.workloads.waiting.selectors import obstacles, waiting
from portal.pages.parts import figures

PARTS = frozenset({"head", "why", "story", "cost", "events"})
EXTENSION_SECONDS = 2 * 3600
COMING = (Phase.PENDING, Phase.STARTING)
HOLDING = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
MOST_EVENTS = 50
MOST_LINES = 500
MOST_RUNS = 10
SHORT_END = 20
SHELL = ("sh", "-c")
FOR_EACH = {"training": ", on each node", "service": ", for each replica"}
"""Of what devices, CPU and memory are asked for, where there are several."""


def url(row: Workload) -> str:
    """Where the workload's page is."""
    return reverse("workload", args=[row.tenant.slug, row.pk])


def opening_url(row: Workload) -> str:
    """Where the page is that waits until the workload opens."""
    return reverse("opening", args=[row.pk])


@dataclass(frozen=True)
class Cost:
    """What a workload cost so far, to the cent, so that it adds up; `split` None: not known yet."""

    charged: Decimal
    refunded: Decimal
    split: Split | None


def cost_of(row: Workload) -> Cost:
    """By what it did, as far as that is known."""
    parts = (row.cost_effective, row.cost_recoverable, row.cost_inefficiency, row.cost_unknown)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Cost(row.cost_charged, row.cost_refunded, None)
    split, refunded = Split(*known).in_cents(), cent(row.cost_refunded)
    return Cost(split.charged, refunded, split)


def frame(row: Workload) -> dict[str, Any]:
    """What each of its pages needs."""
    phase = Phase(row.phase)
    hourly = price_at(row.offer, timezone.now(), row.tenant)
    return {
        "workload": row,
        "tenant": row.tenant,
        "phase": phase,
        "spec": row.spec,
        "base": url(row),
        "runs": phase is Phase.RUNNING,
        "waiting": phase is Phase.PENDING,
        "cost": cost_of(row),
        "hourly": None if hourly is None else hourly * reading.spec_of(row).devices,
        "live_topics": [f"workload:{row.pk}"],
        "array": reading.standing_of(row),
    }


def page(actor: Actor, row: Workload, *, now: datetime) -> dict[str, Any]:
    """Status, why it waits, its story, its cost, its events."""
    phase = Phase(row.phase)
    why = waiting.explanation_for(actor, row, now)
    runs, ends = reading.runs_of(row), not registry.of(row.kind).begins_again
    return frame(row) | {
        "why": why,
        "at_once": starts_at_once(row, why, now),
        "steps": reading.story_of(row),
        "ended_run": ended_run(row),
        "runs_shown": runs[:MOST_RUNS] if ends or any(run.ended_at for run in runs) else (),
        "exit_code": runs[0].words if ends and phase.is_final and runs else "",
        "command": command_line(row),
        "took": _took(row),
        "nodes": sorted({pod["node"] for pod in row.placement if pod.get("node")}),
        "endpoints": reading.endpoints(row),
        "held_shares": devices_held.shares_now(row) if phase in HOLDING else [],
        "for_each": FOR_EACH.get(row.kind, ""),
        "port": reading.port_of(row) if registry.of(row.kind).opens else None,
        "replicas_words": replicas.words(row.replicas) if phase is Phase.RUNNING else "",
        "isolation": SharingMode(row.offer.sharing_mode).isolation,
        "events": reading.events_of(row)[:MOST_EVENTS],
        "troubles": [*figures.conditions_wrong(row.conditions), *_partly(row)],
        "protected_until": row.protected_until if phase in (Phase.STARTING, Phase.RUNNING) else None,
        "afterwards": protection.afterwards(reading.spec_of(row)).label.lower(),
        "now": now,
        "may": may(actor, row) | _may_put_back(actor, row, why),
        "open": opened(actor, row),
        "ide_use": ide_use.words_of(row, now),
        "shell_use": shell_use.words(row.shell_used_at, row.started_at, now),
        "sharing": _sharing(actor, row),
        "ssh": "" if phase.is_final else shell_setup.command_for(actor, row),
        "hours": row.hours,
        "hours_next": working_hours.words_of(row, now),
        "made_from": names_of([row.template]).get(row.template, ""),
        "can_make_more": bool(row.template) and usable_by(row.tenant).filter(slug=row.template).exists(),
    }


def _partly(row: Workload) -> list[dict[str, Any]]:
    """That not all of its pods run, which its phase does not say."""
    ready = find(row.conditions, "Ready")
    is_partly = ready is not None and ready["reason"] in (readiness.PARTLY, readiness.NOT_READY)
    return [{"message": ready["message"]}] if ready and is_partly and row.phase == Phase.RUNNING else []


def _may_put_back(actor: Actor, row: Workload, why: Explanation | None) -> dict[str, bool]:
    """Starting it again also helps what was taken out of its queue."""
    is_out = why is not None and why.cause is Cause.DEACTIVATED and obstacles.is_deactivated(row)
    return {"resume": True} if is_out and policies.can_operate(actor, row) else {}


def _took(row: Workload) -> float | None:
    """The seconds of the run that is over; None where it never ran."""
    if row.started_at is None or row.ended_at is None:
        return None
    return (row.ended_at - row.started_at).total_seconds()


def starts_at_once(row: Workload, why: Explanation | None, now: datetime) -> bool:
    """RULE: what was just asked for and waits for nobody is on its way; "why" would only flash."""
    return (
        why is not None
        and why.cause in (Cause.ON_ITS_WAY, Cause.NEXT)
        and now - row.asked_at < KUEUE_PATIENCE
    )


def command_line(row: Workload) -> str:
    """What it runs as one would type it; empty where it is the image's own."""
    spec = reading.spec_of(row)
    is_typed = spec.command[:2] == SHELL and len(spec.command) == len(SHELL) + 1 and not spec.args
    return spec.command[-1] if is_typed else shlex.join([*spec.command, *spec.args])


def logs(row: Workload, *, after: str = "", search: str = "", pod: str = "") -> dict[str, Any]:
    """Its last lines, or those after a mark, of these the ones that a search finds; where the cluster does
    not answer, the page says so. A pod: what was kept of it, when the last run ended.
    """
    follows = Phase(row.phase) in (Phase.PENDING, Phase.STARTING, Phase.RUNNING) and not pod
    shown = frame(row) | {
        "lines": [],
        "mark": after,
        "most": MOST_LINES,
        "problem": None,
        "search": search,
        "pod": pod,
        "kept_logs": kept_logs.logs_of(row) if row.last_run else [],
        "follows": follows,
    }
    if not row.placement and (follows or not row.last_run):
        return shown
    try:
        read = _kept(row, pod) if pod else live.last_lines(row, tail=MOST_LINES)
    except DomainError as refusal:
        if after:
            raise
        return shown | {"problem": refusal}
    shown |= {"kept": read.kept, "other": read.other}
    found = read.text.splitlines()
    lines = log_tail.matching(log_tail.after(found, after), search)
    return shown | {"lines": lines, "mark": log_tail.mark(found) or after}


def _kept(row: Workload, pod: str) -> live.Lines:
    return live.kept_lines(live.kept(row, pod=pod), MOST_LINES)


def log_file(credential: Credential, row: Workload, *, pod: str = "") -> HttpResponseBase:
    """All of its lines that the cluster gives, or that were kept, as a download; refuses as `live.logs`."""
    try:
        kept = live.kept(row, pod=pod) if pod else None
        text = "" if kept else live.logs(row, tail=live.MOST_LINES)
    except DomainError as refusal:
        kept = live.instead(row, refusal, pod=pod)
    if kept:
        return log_files.file_of(credential, row, kept)
    answer = HttpResponse(text, content_type=log_files.MEDIA)
    answer["Content-Disposition"] = f'attachment; filename="{row.slug}.log"'
    answer["Cache-Control"] = "no-store"
    return answer


def ended_run(row: Workload) -> dict[str, Any]:
    """How its last run that is over ended, with the last lines of its log while it does not run again."""
    run = last_run.stored(row.last_run)
    if run is None:
        return {}
    logs = kept_logs.logs_of(row)
    is_on = Phase(row.phase) in (Phase.STARTING, Phase.RUNNING)
    lines = "" if is_on or not logs else kept_logs.end_of(logs[0], SHORT_END)
    return {"run": run, "logs": logs, "lines": lines, "most": SHORT_END}


def source(row: Workload) -> dict[str, Any]:
    """Its manifests as YAML."""
    manifests = reading.manifests_of(row)
    return frame(row) | {"manifests": manifests, "source": as_yaml(manifests), "live_topics": []}


def as_yaml(manifests: list[Any]) -> str:
    """Several documents, in the order in which they are applied."""
    return str(yaml.safe_dump_all(manifests, sort_keys=False, allow_unicode=True))


def may_stop(actor: Actor, row: Workload) -> bool:
    """Whether there is anything to stop, and the viewer may; the service decides again."""
    phase = Phase(row.phase)
    is_over = phase.is_final or phase in (Phase.STOPPED, Phase.STOPPING, Phase.DELETING)
    return not is_over and policies.can_stop(actor, row)


def shared(row: Workload, to: OpenTo) -> WorkloadSpec:
    """What it asks for, opened to others or not."""
    spec = reading.spec_of(row)
    block: Any = spec.block
    return replace(spec, block=replace(block, open_to=to)) if spec.open_to else spec


def _sharing(actor: Actor, row: Workload) -> dict[str, Any]:
    """Who opens it, and the other choice for whoever may take it."""
    if not registry.of(row.kind).opens:
        return {}
    now = OpenTo(row.open_to)
    other = OpenTo.OWNER if now is OpenTo.TEAM else OpenTo.TEAM
    may = policies.can_share(actor, row) if other is OpenTo.TEAM else policies.can_operate(actor, row)
    words = {OpenTo.TEAM: "Open it to the team", OpenTo.OWNER: "Only its owner from now on"}
    return {"now": now.label, "other": other.value, "words": words[other] if may else ""}


def opened(actor: Actor, row: Workload) -> dict[str, str]:
    """Where "Open" leads now, or the page that waits for it; nothing for what is never opened."""
    if access.refusal(actor, row) is None:
        return {"url": f"{url(row)}open/"}
    is_coming = Phase(row.phase) in COMING and access.is_awaited(actor, row)
    return {"later": opening_url(row)} if is_coming else {}


def may(actor: Actor, row: Workload) -> dict[str, bool]:
    """Which buttons to show; the services decide again."""
    phase = Phase(row.phase)
    allowed = policies.can_operate(actor, row) and phase is not Phase.DELETING
    at_rest = phase is Phase.STOPPED or phase.is_final
    is_idle = phase is Phase.RUNNING and bool(row.idle) and row.first_stop == row.idle_stops_at
    return {
        "extend_idle": is_idle
        and policies.can_stop(actor, row)
        and bool((row.idle or {}).get("extensions_left")),
        "stop": may_stop(actor, row),
        "resume": allowed and phase is Phase.STOPPED,
        "extend": allowed and phase is Phase.RUNNING and row.stops_at is not None,
        "delete": allowed and at_rest,
        "resize": allowed and registry.of(row.kind).begins_again and not phase.is_final,
        "set_hours": allowed and reading.spec_of(row).notebook is not None and not phase.is_final,
        "move": allowed and phase is Phase.PENDING,
        "duplicate": policies.can_submit(actor, row.tenant),
        "rerun": rerun.can_rerun(row) and policies.can_submit(actor, row.tenant),
    }
