"""The home page: parse, call, present."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from portal.pages.account import home
from portal.pages.parts.htmx import render_page


@require_safe
def home_page(request: HttpRequest) -> HttpResponse:
    """What runs, waits and stops next; what is free now."""
    shown = home.page(actor_of(request), now=timezone.now())
    return render_page(request, "account/home.html", shown, parts=home.PARTS)
