"""How figures are computed."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.metering.ledger.selectors import effective_formula
from portal.pages.parts.htmx import render_page


@require_safe
def how_page(request: HttpRequest) -> HttpResponse:
    """How every figure of use and cost is computed."""
    return render_page(request, "account/how.html", {"formula": effective_formula.present()})
