"""The console's pages of nodes: parse, call, present."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from portal.pages.console.fleet import capacity
from portal.pages.parts.htmx import render_page

More = Callable[[Actor], dict[str, Any]]


@require_safe
def nodes_page(request: HttpRequest) -> HttpResponse:
    """Every node with GPUs."""
    return render_page(
        request, "console/fleet/nodes.html", capacity.nodes(actor_of(request)), parts=capacity.PARTS
    )


@require_safe
def node_page(request: HttpRequest, node: str, more: More = lambda _actor: {}) -> HttpResponse:
    """One node's devices, their layout and holders. `more` is added to the page's context."""
    actor = actor_of(request)
    shown = capacity.node(actor, node) | more(actor)
    return render_page(request, "console/fleet/node.html", shown, parts=capacity.PARTS)
