"""What a team's quota page, its requests and the console's list of requests show. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from django.http import HttpResponse, QueryDict
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.quotas import policies
from apps.quotas.allowances.selectors import entitlements, standing
from apps.quotas.budgets.rules import budget as months
from apps.quotas.budgets.selectors import spending
from apps.quotas.models import QuotaRequest, Spend
from apps.quotas.requests.services import forecast
from apps.quotas.requests.services.deciding import words_of
from apps.quotas.specs import RequestStatus
from apps.tenants.models import Department, Tenant
from apps.tenants.people.selectors import invitations
from apps.tenants.selectors import department_for, managed_by, tenants_for
from apps.tenants.specs import InvitationStatus
from apps.web.requests.sheets import csv_file
from portal.pages.parts import budget_lines
from portal.pages.parts.lazy import part
from portal.pages.parts.quota_bars import bars, picture_of
from portal.pages.team.usage import finding_pages, team_usage, use

PARTS = frozenset({"hold", "quota", "grants", "budget", "rows", "spent", "lent"})
REQUEST_PARTS = frozenset({"head", "story"})
MOST_REQUESTS = 20
MONTH = use.asked(QueryDict("span=30d"))
"""The time of which a team's use stands beside what it asks for."""
HEAD = ("offer", "guaranteed", "used", "lent", "borrowed", "may_borrow", "waiting", "free_now",
        "free_on_one_node")  # fmt: skip
TONES = {
    RequestStatus.OPEN: ("warn", "hourglass"),
    RequestStatus.APPROVED: ("good", "circle-check"),
    RequestStatus.DECLINED: ("bad", "circle-x"),
    RequestStatus.WITHDRAWN: ("muted", "square"),
}
NOTE_TONES = {"approved": "good", "declined": "bad"}


@dataclass(frozen=True)
class Line:
    """A request as a list shows it."""

    row: QuotaRequest
    words: str
    tone: str
    icon: str

    @property
    def status(self) -> str:
        """The word of its status."""
        return RequestStatus(self.row.status).label

    @property
    def partly(self) -> str:
        """`3 of 5`, where less was given than was asked for."""
        given, count = self.row.given, self.row.count
        return f"{given} of {count}" if given and given != count else ""


def team(actor: Actor, tenant: Tenant, *, now: datetime) -> dict[str, Any]:
    """Quota, grants, budgets and requests of one tenant; a part that comes alone reads what it shows."""
    asked = spending.requests_for(actor).filter(tenant=tenant).order_by("-created_at")[:MOST_REQUESTS]
    given = spending.grants_for(actor).filter(tenant=tenant, ends_at__gt=now).order_by("ends_at")
    queue = cache(lambda: entitlements.queue_of(tenant))
    requests, grants = cache(lambda: list(asked)), cache(lambda: list(given))
    budgets = cache(lambda: budget_lines.of_tenant(tenant, now))
    return {
        "tenant": tenant,
        "bars": cache(lambda: bars(actor, tenant, now=now)),
        "grants": grants,
        "running": lambda: [grant for grant in grants() if grant.starts_at <= now],
        "budgets": budgets,
        "own": lambda: [each for each in budgets() if each.whose == tenant.slug],
        "rows": lambda: [_line(row) for row in requests()],
        "open": lambda: sum(1 for row in requests() if row.status == RequestStatus.OPEN),
        "hold": lambda: queue().hold_detail,
        "is_manual": lambda: bool(queue().manual_hold),
        "may_decide": policies.can_decide(actor, tenant),
        "may_ask": policies.can_ask_for_quota(actor, tenant),
        "charged": part(lambda: team_usage.charged(tenant, MONTH, now=now)),
        "month": now,
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def neighbours(actor: Actor, tenant: Tenant) -> list[Tenant]:
    """The other tenants of its department, as far as the actor sees them."""
    rows = tenants_for(actor).filter(department=tenant.department_id)
    return list(rows.exclude(pk=tenant.pk).order_by("name"))


def request(actor: Actor, row: QuotaRequest, *, now: datetime) -> dict[str, Any]:
    """One request with its history; what it would change for those who decide, while it is open."""
    is_open = row.status == RequestStatus.OPEN
    may_decide = policies.can_decide(actor, row.tenant)
    is_own = row.asked_by_id == actor.user_id
    is_lead = policies.can_ask_for_quota(actor, row.tenant)

    @cache
    def told() -> forecast.Forecast | None:
        # A part that refreshes alone does not show it, and does not wait for it.
        return forecast.of_request(row, row.count, actor=actor, now=now) if is_open and may_decide else None

    return {
        "tenant": row.tenant,
        "row": row,
        "line": _line(row),
        "notes": [(note, NOTE_TONES.get(note.what, "muted")) for note in row.notes.all()],
        "is_open": is_open,
        "is_own": is_own,
        "may_decide": is_open and may_decide and not is_own,
        "may_withdraw": is_open and (is_own or is_lead),
        "may_say": may_decide or is_lead,
        "forecast": told,
        "charged": part(lambda: team_usage.charged(row.tenant, MONTH, now=now)),
        "idle": part(lambda: finding_pages.idle_on(actor, row.offer)),
        "live_topics": [f"tenant:{row.tenant.slug}"],
    }


def console(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """Every request that the actor may see in the console: open ones by age, then the latest decisions."""
    require_console(actor)
    seen = spending.requests_for(actor)
    waiting = list(seen.filter(status=RequestStatus.OPEN).order_by("created_at"))
    asked = list(
        invitations.invitations_for(actor).filter(status=InvitationStatus.OPEN).order_by("created_at")
    )
    ages = [*(row.created_at for row in waiting[:1]), *(row.created_at for row in asked[:1])]
    decided = seen.exclude(status=RequestStatus.OPEN).order_by("-updated_at")[:MOST_REQUESTS]
    return {
        "rows": [_line(row) for row in waiting],
        "invitations": asked,
        "waiting": len(waiting) + len(asked),
        "oldest": min(ages, default=None),
        "decided": [_line(row) for row in decided],
        "now": now,
        "live_topics": ["console"] if actor.sees_everything else [],
    }


def require_console(actor: Actor) -> None:
    """The console is there for platform engineers, auditors and managers; raises NotFound for others."""
    if not actor.sees_everything and not managed_by(actor):
        raise NotFound


def department_of(actor: Actor, slug: str) -> Department:
    """A department, for those who look after it or see everything; raises NotFound for others."""
    row = department_for(actor, slug)
    if not actor.sees_everything and row.pk not in managed_by(actor):
        raise NotFound
    return row


def department(actor: Actor, row: Department, *, now: datetime) -> dict[str, Any]:
    """The budgets of a department, and what each of its tenants has spent of them this month."""
    month = months.month_of(now)
    seen = tenants_for(actor).filter(department=row).order_by("slug")
    spends = {each.tenant_id: each for each in Spend.objects.filter(tenant__in=seen, month=month)}
    return {
        "department": row,
        "budgets": budget_lines.lines(row.budgets.order_by("unit"), now),
        "spends": [(tenant, spends.get(tenant.pk)) for tenant in seen],
        "may_set": policies.can_manage_catalogue(actor),
        "month": now,
        "now": now,
    }


def csv_of(actor: Actor, tenant: Tenant) -> HttpResponse:
    """A team's quota as a file, in devices, with the figures of its bars; a limit that is empty is none."""
    found = [(each, picture_of(each)) for each in standing.quota_bars(actor, tenant, now=timezone.now())]
    rows = [
        (each.offer.slug, bar.guaranteed, bar.used, bar.lent, bar.borrowed, bar.borrow_limit, bar.pending,
         each.free, each.free_on_one_node)
        for each, bar in found
    ]  # fmt: skip
    return csv_file(f"{tenant.slug}-quota", HEAD, rows)


def _line(row: QuotaRequest) -> Line:
    tone, icon = TONES[RequestStatus(row.status)]
    words = words_of(row)
    return Line(row, words[0].upper() + words[1:], tone, icon)
