"""The console's queue board and its order: parse, call, present."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.workloads.queue.services import arranging
from portal.pages.console.fleet import queue_board
from portal.pages.parts.answers import done, require_form, sent, with_status
from portal.pages.parts.htmx import render_page
from portal.pages.team.workloads.act_forms import ReasonForm


@require_safe
def queue_page(request: HttpRequest) -> HttpResponse:
    """All that waits, why, and who holds it."""
    shown = queue_board.page(actor_of(request), after=request.GET.get("after", ""), now=timezone.now())
    return render_page(request, "console/fleet/queue.html", shown, parts=queue_board.PARTS)


@require_form
def arrange_page(request: HttpRequest, workload: UUID, arrangement: str) -> HttpResponse:
    """What moving, holding or releasing would change; a POST does it."""
    actor, form = actor_of(request), ReasonForm(sent(request))
    row, wanted = queue_board.asked(actor, workload, arrangement)
    shown = queue_board.confirm(actor, row, wanted) | {"form": form, "failed": bool(form.errors)}
    if request.method == "POST" and form.is_valid():
        asked = {"arrangement": wanted, "reason": form.cleaned_data["reason"], "now": timezone.now()}
        arranging.arrange_workload(actor=actor, workload=row, **asked)
        return done(request, f"{row.name}: {shown['effect'].sentences[0]}", reverse("console-queue"))
    return with_status(render_page(request, "console/fleet/arrange.html", shown), 422 if form.errors else 200)
