"""Help me choose: which offer suits what somebody needs. A form by GET; stores nothing."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors import inventory
from apps.errors import NotFound
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.workloads import policies, registry
from apps.workloads.advice.rules import wishes
from apps.workloads.advice.rules.situations import BY_QUOTA, Advice, Ranked
from apps.workloads.advice.selectors import advising
from apps.workloads.selectors import reading
from apps.workloads.specs import Kind
from portal.pages.parts.answers import with_status
from portal.pages.parts.htmx import render_page
from portal.pages.team.advice.advice_form import SENT, AdviceForm

PAGE = "team/advice/page.html"


@require_safe
def advice_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """The questions, and below them the answer once they are sent."""
    actor, now = actor_of(request), timezone.now()
    team, is_sent = tenant_for(actor, tenant), SENT in request.GET
    form = AdviceForm(request.GET if is_sent else None, initial=request.GET.dict())
    shown: dict[str, Any] = {
        "tenant": team,
        "form": form,
        "like": request.GET.get("like", ""),
        "failed": is_sent and not form.is_valid(),
        "live_topics": [],
        "currency": settings.CONFIG.currency,
    }
    if is_sent and form.is_valid() and form.need:
        asked = advising.Asked(actor, team, form.chosen, form.need, now)
        shown |= _answer(advising.advice_for(asked), form, team, _like(actor, team, form, shown["like"]))
        shown["may_use"] = policies.can_submit(actor, team)
    return with_status(render_page(request, PAGE, shown), 422 if shown["failed"] else 200)


def _answer(advice: Advice, form: AdviceForm, team: Tenant, like: str) -> dict[str, Any]:
    kind, need = form.chosen, advice.need
    repeats = need.at_once if need.at_once > 1 and not registry.of(kind).several else 0
    return {
        "advice": advice,
        "kind": kind,
        "lack": inventory.lacks(team.cluster, needs) if (needs := registry.of(kind).needs) else None,
        "counted": wishes.how_much(need.model) if need.model else "",
        "ready": sum(each.start == "now" for each in advice.ranked),
        "rows": [(each, _use(each, form, team, like)) for each in advice.ranked],
        "repeats": repeats,
        "asks_for_quota": advice.nearest is not None and advice.nearest.why in BY_QUOTA,
    }


def _like(actor: Actor, team: Tenant, form: AdviceForm, like: str) -> str:
    """The workload that the new one is to be like; "" where it is none of the chosen kind."""
    try:
        row = reading.workload_for(actor, like, team.slug)
    except NotFound:
        return ""
    return like if row.kind == form.chosen else ""


def _use(each: Ranked, form: AdviceForm, team: Tenant, like: str) -> str:
    """The form of a new workload with all of the choice filled in: offer, devices, how many. RULE: how long
    only of a lease, which can be made longer; whatever else ran a little over would be stopped.
    """
    kind = form.chosen
    lease = {"run_hours": form.cleaned_data["hours"]} if registry.of(kind).is_leased else {}
    typed = {"count": each.each, **lease, **_several(kind, form)}
    step = reverse("new-fields", args=[team.slug, kind, each.offer.slug])
    return f"{step}?{urlencode({**typed, **({'like': like} if like else {})})}"


def _several(kind: Kind, form: AdviceForm) -> dict[str, int]:
    of, count = registry.of(kind), form.cleaned_data["at_once"]
    names = {field.name for field in of.fields} & {of.several, "completions"}
    return dict.fromkeys(sorted(names), count) if of.several and count > 1 else {}
