"""The page of one's own messages. It holds no rules."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts.actors import actor_of
from apps.notices import selectors, services
from portal.pages.parts.answers import require_form
from portal.pages.parts.htmx import redirect_after, render_page

MOST_SHOWN = 100
PARTS = frozenset({"notices"})


@require_form
def notices_page(request: HttpRequest) -> HttpResponse:
    """One's messages, newest first; a POST marks them all as read."""
    actor, now = actor_of(request), timezone.now()
    if request.method == "POST":
        services.mark_read(selectors.notices_of(actor.user_id), now=now)
        return redirect_after(request, request.path)
    rows = selectors.notices_of(actor.user_id).order_by("-created_at", "pk")
    shown = {"rows": list(rows[:MOST_SHOWN]), "count": rows.filter(read_at=None).count()}
    topics = {"live_topics": [f"user:{actor.user_id}"]}
    return render_page(request, "account/notices.html", shown | topics, parts=PARTS)
