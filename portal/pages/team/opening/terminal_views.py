"""A terminal in a workload's page: the page, and the code by which it connects. Parse, call, present."""

from typing import Any
from uuid import UUID

from csp.constants import NONCE
from csp.decorators import csp_update
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts.actors import actor_of, credential_of
from apps.accounts.specs import Actor
from apps.errors import Conflict
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import shell_access
from apps.workloads.opening.services import reaching, shells
from apps.workloads.selectors.reading import workload_for
from apps.workloads.specs import Phase
from portal.packages import terminal_files
from portal.pages.parts.answers import require_form
from portal.pages.parts.htmx import render_page
from portal.pages.team.workloads import workload_detail

_DOMAIN = settings.CONFIG.apps
TEMPLATE = "team/opening/terminal.html"
NO_FILES = Conflict(
    "This installation lacks the files of the terminal.",
    hint="Ask a platform engineer to run python -m portal.packages.terminal_files.",
)
# xterm.js makes style elements: with the page's nonce they are let be, and no other is.
_POLICY = {"style-src": [NONCE], "connect-src": [_DOMAIN.terminals_url] if _DOMAIN else []}


@csp_update(_POLICY)  # type: ignore[arg-type] # it passes on what an address has
@require_form
def terminal_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The page; a POST answers the part that connects, with a code for this browser."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    if request.method != "POST":
        return render_page(request, TEMPLATE, page(actor, row))
    made = shells.offer_terminal(
        actor=actor, credential=credential_of(request), workload=row, now=timezone.now()
    )
    return render_page(request, f"{TEMPLATE}#line", {"address": made.url, "code": made.code})


def page(actor: Actor, row: Workload) -> dict[str, Any]:
    """Its pods, and why there is no terminal, where there is none."""
    refused = shell_access.refusal(actor, row) or (None if terminal_files.are_here() else NO_FILES)
    pods = reaching.running_pods(row) if refused is None else []
    return workload_detail.frame(row) | {
        "refused": refused,
        "pods": pods,
        "is_resumable": workload_detail.may(actor, row)["resume"],
        "ends": Phase(row.phase).is_final,
    }
