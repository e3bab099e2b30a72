"""While a platform engineer sees the portal as somebody else: whose page it is, and the one gate that keeps
it read-only.

`request.user` and the actor are the person's, as every page and every scope reads them; `request.viewer` is
the engineer, `request.viewing` the view. A token is nobody's view: what comes with one passes by.
"""

from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.csrf import rotate_token
from django.urls import reverse
from django.utils import timezone

from apps.accounts import actors
from apps.accounts.models import User, Viewing
from apps.accounts.specs import VIEWING, PlatformRole, ViewEnd
from apps.accounts.viewing import selectors, services
from apps.errors import DomainError, NotAllowed
from apps.web.problems.answers import request_id_of
from apps.web.problems.refusals import InsufficientScope, InvalidToken
from apps.web.stores import outage
from portal.middleware import Next, answer, is_api, unavailable

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
HEADER = "X-Allotment-View"
"""What htmx sends from a page: the view that the page was made in. One of another time is not served."""
HINT = "End the view to act as yourself."
OWN = ("end-view", "sign-out")
"""What stays the engineer's own: the two ways out."""
CLOSED = frozenset(
    {
        # Ways in and what proves who somebody is.
        "sign-in-with", "sign-in-back", "second-step", "second-step-set-up", "sign-in-passkey", "invite",
        "connect", "app", "remove-app", "recovery-codes", "new-passkey", "remove-passkey", "new-ssh-key",
        "remove-ssh-key",
        # What a program comes in with.
        "my-tokens", "api-tokens", "api-token", "kubeconfig", "api-kubeconfig",
        # The door: nobody enters somebody's notebook, service or shell.
        "opening", "workload-open", "workload-terminal",
    }
)  # fmt: skip
"""Names of addresses that answer no GET either: they hand something out, lead inside, or have an effect."""


class ViewingMiddleware:
    """Puts the person viewed in the engineer's place for one request; refuses what is more than reading."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Asked anew at every request; without the database nobody can say whose page it is: 503."""
        try:
            refused = _entered(request, timezone.now())
        except outage.AWAY as error:
            return unavailable(error, request)
        return refused or self.get_response(request)

    def process_view(
        self, request: HttpRequest, _view: object, _args: object, _steps: object
    ) -> HttpResponse | None:
        """Django's hook: the gate."""
        if not hasattr(request, "viewing"):
            return None
        name = (request.resolver_match and request.resolver_match.url_name) or ""
        if request.method in SAFE and name not in CLOSED:
            return None
        return answer(_refusal(request), request)


def begin(request: HttpRequest, view: Viewing) -> None:
    """From its next request on this browser sees the portal as the person. Pages that it has open send
    nothing any more: they were made for somebody else.
    """
    request.session[VIEWING] = str(view.pk)
    rotate_token(request)


def leave(request: HttpRequest, *, now: datetime) -> Viewing | None:
    """The engineer is themselves again; answers the view that ended, None where there was none."""
    view = selectors.view_of(request.session.pop(VIEWING, None), request.session.session_key)
    rotate_token(request)
    if view is not None:
        services.end(view, how=ViewEnd.ENDED, now=now, request_id=request_id_of(request))
    return view


def _entered(request: HttpRequest, now: datetime) -> HttpResponse | None:
    if not _has_session(request):
        return None
    key = request.session.get(VIEWING)
    if key is None and not request.headers.get(HEADER):
        return None
    if request.path_info in map(reverse, OWN):
        return None
    if key is None:
        return answer(_other_page(), request)
    view = selectors.view_of(key, request.session.session_key)
    viewer = request.user
    if view is None or not _lasts(request, view, now):
        return _over(request, view, now)
    request.viewer, request.viewing = viewer, view  # type: ignore[attr-defined]
    request.user = view.person
    actors.remember(request, actors.of_view(view, request))
    is_other = request.headers.get("HX-Request") == "true" and request.headers.get(HEADER) != str(view.pk)
    return answer(_other_page(), request) if is_other else None


def _has_session(request: HttpRequest) -> bool:
    """Whether a session decides who asks. One that is looked at makes the answer vary by cookies."""
    has_token = request.path_info.startswith("/api/v1/") and "Authorization" in request.headers
    return settings.SESSION_COOKIE_NAME in request.COOKIES and not has_token


def _lasts(request: HttpRequest, view: Viewing, now: datetime) -> bool:
    try:
        engineer = actors.actor_of(request).user_id
    except InvalidToken:
        return False
    return engineer == view.viewer_id and not selectors.end_of(view, now)


def _over(request: HttpRequest, view: Viewing | None, now: datetime) -> HttpResponse:
    """Nothing is done in the engineer's own name until they have seen that the view is over: a page that they
    go to says so, all else is refused until then.
    """
    how = selectors.end_of(view, now, is_session_open=isinstance(request.user, User)) if view else ""
    if view is not None:
        services.end(view, how=ViewEnd(how or ViewEnd.SESSION), now=now, request_id=request_id_of(request))
    name = view.person.shown_name if view else "somebody else"
    is_page = request.method == "GET" and not is_api(request) and "HX-Request" not in request.headers
    if not is_page or "text/html" not in request.headers.get("Accept", ""):
        return answer(_ended(request, name), request)
    request.session.pop(VIEWING, None)
    rotate_token(request)
    messages.warning(request, f"You no longer see the portal as {name}.")
    return HttpResponseRedirect(_back(request, view))


def _back(request: HttpRequest, view: Viewing | None) -> str:
    is_engineer = getattr(request.user, "platform_role", "") == PlatformRole.PLATFORM
    return reverse("console-sessions", args=[view.person.username]) if view and is_engineer else "/"


def _refusal(request: HttpRequest) -> DomainError:
    view: Viewing = request.viewing  # type: ignore[attr-defined]
    seen = f"You see the portal as {view.person.shown_name}, read-only, until {view.ends_at:%H:%M} UTC"
    if request.method not in SAFE:
        return NotAllowed(f"{seen}: nothing was changed.", hint=HINT)
    words = f"{seen}: what opens, hands out or changes a way in is theirs alone."
    return InsufficientScope(words, hint=HINT) if is_api(request) else NotAllowed(words, hint=HINT)


def _ended(request: HttpRequest, name: str) -> DomainError:
    words = f"You no longer see the portal as {name}; nothing was done."
    return InvalidToken(words) if is_api(request) else NotAllowed(words, hint="Reload the page.")


def _other_page() -> DomainError:
    words = "This page was made before you began or ended to see the portal as somebody else."
    return NotAllowed(words, hint="Reload the page.")
