"""The console's first page: money wasted today, by whom and why, on top of supply and demand. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering.allocations.selectors import allocations
from apps.metering.billing.selectors import costs, line_items
from apps.metering.billing.selectors.charged_intervals import WholeTenants
from apps.metering.billing.selectors.costs import Group
from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.specs import Account, IdleReason
from apps.metering.usage.selectors import account_sums
from apps.tenants.selectors import seen_by, tenants_for
from apps.web.requests.sheets import csv_file, download
from apps.web.shapes.amounts import to_the_cent
from portal.pages.console.fleet import capacity, drift_pages, fleet_focus, starts, telemetry
from portal.pages.parts.lazy import part
from portal.pages.parts.needs import Need
from portal.pages.team.usage import bill, use, wasted, worst
from portal.pages.team.usage.wasted import Bill, Line, Money

PARTS = capacity.FLEET_PARTS | {"money", "gpus", "picture", "who", "idle", "worst"}
NAMED = 200
"""Tenants at most whose ids stand in a statement."""
FILES = ("use", "tenants", "departments", "idle", "focus")
IDLE_HEAD = ("reason", "gpu_hours")
WORDS = {
    IdleReason.FREE: "nobody asked for it",
    IdleReason.RESERVED: "reserved for somebody who had not come yet",
    IdleReason.CORDONED: "taken out of service",
    IdleReason.UNHEALTHY: "sick: node not ready, or the device",
    IdleReason.STRANDED: "rest of a sliced GPU that fits no offer",
}


@dataclass(frozen=True)
class Wasted:
    """Money since midnight UTC, by tenant and by department."""

    bill: Bill
    departments: Sequence[Line]

    @property
    def tenants(self) -> Sequence[Line]:
        """Those that a page has room for."""
        return self.bill.lines[:20]


@dataclass(frozen=True)
class Idle:
    """GPU-hours that one reason took."""

    word: str
    why: str
    hours: float
    percent: float


@dataclass(frozen=True)
class Unused:
    """The GPU-hours that nobody held since midnight, and how many there were."""

    rows: Sequence[Idle]
    hours: float
    there: float

    @property
    def percent(self) -> float:
        """Of all GPU-hours."""
        return 100 * self.hours / self.there if self.there else 0.0


def page(actor: Actor, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """Its parts, each made when the template comes to it; raises NotFound for anybody without the console."""
    shown = capacity.fleet(actor, now=now)
    wanted = use.asked(query)
    found, issues = (
        part(lambda: worst.of_all(actor, since=line_items.midnight(now))),
        part(lambda: telemetry.summary(actor)),
    )
    return shown | {
        "asked": wanted,
        **{f"{what}_file": reverse("console-file", args=[what]) for what in FILES},
        "findings_url": reverse("console-findings"),
        "wasted": part(lambda: since_midnight(actor, now=now)),
        "gpus": part(
            lambda: use.shown(
                account_sums.held_for(actor), allocations.allocations_for(actor), wanted, now=now
            )
        ),
        "unused": part(lambda: idle(actor, now=now)),
        "worst": found,
        "telemetry": issues,
        "needs": cache(
            lambda: [
                *telemetry.hardware_needs(actor),
                *drift_pages.needs(actor),
                *starts.needs(actor, now=now),
                *_issues(issues()),
                *_findings(found()),
                *shown["needs"](),
            ]
        ),
    }


def since_midnight(actor: Actor, *, now: datetime) -> Wasted:
    """What today cost and what of it was wasted, by the rule of a team's (`team_usage.charged`): it ends with
    the last whole bucket, and is told to the second while there is nothing else.
    """
    begins, ends = line_items.midnight(now), floor(now, LEVELS[0])
    teams = {row.slug: row for row in tenants_for(actor)}
    # Few are named, so that no row is asked whether its tenant is there still.
    whole = WholeTenants([row.pk for row in teams.values()] if len(teams) <= NAMED else seen_by(actor))
    lines = costs.costs(whole, Group.TENANT, begins=begins, ends=ends, now=now)
    if not lines:
        ends = now
        lines = costs.costs(whole, Group.TENANT, begins=begins, ends=ends, now=now)
    money = [(teams[line.key], wasted.money_of(line)) for line in lines if line.key in teams]
    by_team = wasted.folded(
        money, lambda row: (row.name, reverse("usage", args=[row.slug]), row.department.name)
    )
    by_department = wasted.folded(
        [(row.department, each) for row, each in money],
        lambda row: (row.name, reverse("console-department", args=[row.slug]), ""),
    )
    return Wasted(Bill(begins, ends, Money.total([each for _, each in money]), by_team), by_department)


def idle(actor: Actor, *, now: datetime) -> Unused:
    """The time that nobody held since midnight, by reason, the most first."""
    hour = 3600 * 1_000_000
    spent = account_sums.by_account(account_sums.rows_for(actor), line_items.midnight(now), now)
    there = sum(spent.values()) / hour
    reasons = {reason: gpu for (account, reason), gpu in spent.items() if account is Account.IDLE and gpu}
    most_first = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    rows = [_idle(reason, gpu / hour, there) for reason, gpu in most_first]
    return Unused(rows, sum(row.hours for row in rows), there)


def csv_of(actor: Actor, what: str, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The file behind one picture or table; raises NotFound for any other, and for anybody without the
    console.
    """
    if not actor.sees_everything or what not in FILES:
        raise NotFound
    if what == "use":
        return use.csv_of(account_sums.held_for(actor), use.asked(query), "fleet-use", now=now)
    if what == "focus":
        month = bill.asked(query, now)
        return download(f"fleet-{month:%Y-%m}-focus", fleet_focus.text_of(actor, month, now=now))
    if what == "idle":
        rows = [(row.word, row.hours) for row in idle(actor, now=now).rows]
        return csv_file("fleet-idle-today", IDLE_HEAD, rows)
    found = since_midnight(actor, now=now)
    lines = found.departments if what == "departments" else found.bill.lines
    return csv_file(f"fleet-{what}-today", wasted.HEAD, wasted.cells(lines))


def _idle(reason: str, hours: float, there: float) -> Idle:
    known = IdleReason(reason) if reason in set(IdleReason) else IdleReason.FREE
    return Idle(known.label, WORDS[known], hours, 100 * hours / there if there else 0.0)


def _issues(found: Any) -> list[Need]:
    if getattr(found, "failed", False) or not found.count:
        return []
    what = f"{found.count} telemetry issue{'s' if found.count != 1 else ''}"
    look = ("octagon-alert", "bad") if found.is_blind else ("triangle-alert", "warn")
    return [Need(what, found.words.lower(), *look, reverse("console-telemetry"), found.since)]


def _findings(found: Any) -> list[Need]:
    if getattr(found, "failed", False) or not found.count:
        return []
    plural = "s" if found.count != 1 else ""
    why = f"{to_the_cent(found.weekly)} a week to recover" if found.weekly else "see what was found"
    return [Need(f"{found.count} finding{plural}", why, "triangle-alert", "warn", "#worst", found.oldest)]
