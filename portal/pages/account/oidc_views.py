"""Signing in with an organisation's provider, and connecting one: parse, call, present."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.actors import actor_of
from apps.accounts.models import User
from apps.accounts.oidc import flows
from apps.accounts.oidc.flows import Begun, Brought
from apps.accounts.sign_in import sign_in, way_on
from apps.accounts.tries import Try
from apps.errors import DomainError, NotAllowed
from apps.tenants.people.services import group_rights
from apps.web.problems import answers
from portal.pages.account.proving import ProvenView
from portal.pages.account.session_views import HERE
from portal.pages.account.sign_in_views import onward, sign_in_page
from portal.pages.parts.htmx import redirect_after, render_page

PARAMETERS = ("state", "code", "iss", "error")
COOKIE = "allotment_way_in"


@never_cache
@require_GET
def with_provider(request: HttpRequest, provider: str) -> HttpResponse:
    """To the provider. A link, not a form: a form's redirects may lead nowhere else (form-action)."""
    found, now = flows.provider_of(provider), timezone.now()
    if full := Try.of_provider(request, now).spend():
        full.require()
    try:
        begun = flows.begin(found, way_on=way_on(request), user=None, now=now)
    except DomainError as error:
        return _refused(request, error)
    return _carrying(HttpResponseRedirect(begun.address), begun)


@never_cache
@require_GET
def back(request: HttpRequest, provider: str) -> HttpResponse:
    """The provider's answer: signed in, connected, or the sign-in page with what was wrong."""
    found, now = flows.provider_of(provider), timezone.now()
    answer = {name: request.GET[name] for name in PARAMETERS if name in request.GET}
    try:
        brought = flows.finish(found, cookie=request.COOKIES.get(_cookie(), ""), answer=answer, now=now)
        response = _connected(request, brought) if brought.user else _signed_in(request, brought)
    except DomainError as error:
        response = _refused(request, error)
    response.delete_cookie(_cookie(), samesite="Lax")
    return response


class ConnectView(ProvenView):
    """A page with the link to the provider, for somebody who is signed in and wants that way in too."""

    def is_asked(self, user: User) -> bool:
        """Who has no password has nothing to show that the session does not show."""
        return user.has_usable_password()

    def told(self, user: User, **of: Any) -> dict[str, str]:
        """Which, and what follows."""
        name = flows.provider_of(of["provider"]).name
        return {
            "title": f"Connect {name}?",
            "sentence": f"Your account there opens this one, {user.username}, from then on.",
            "button": f"Connect {name}",
            "kind": "",
        }

    def act(self, request: HttpRequest, user: User, **of: Any) -> HttpResponse:
        """Begin it; the link leads on."""
        found, now = flows.provider_of(of["provider"]), timezone.now()
        begun = flows.begin(found, way_on=HERE, user=user, now=now)
        page = render_page(request, "account/connect.html", {"provider": found, "address": begun.address})
        return _carrying(page, begun)


def _signed_in(request: HttpRequest, brought: Brought) -> HttpResponse:
    now = timezone.now()
    person = group_rights.arrive(brought, now=now)
    sign_in(request, person, way=f"oidc:{brought.provider.slug}", now=now)
    return redirect_after(request, onward(request, brought.way_on))


def _connected(request: HttpRequest, brought: Brought) -> HttpResponse:
    user = brought.user
    # The browser may have changed hands meanwhile: whoever asked must be who is here.
    if user is None or actor_of(request).user_id != user.pk:
        raise NotAllowed("Somebody else is signed in here by now.", hint="Sign in and connect it again.")
    group_rights.connect(brought, user=user, now=timezone.now())
    messages.success(request, f"{brought.provider.name} signs you in from now on.")
    return redirect_after(request, "/me/sign-in/")


def _refused(request: HttpRequest, error: DomainError) -> HttpResponse:
    answers.note(error, request)
    refusal = answers.problem_for(error, request)
    return sign_in_page(request, {"refusal": refusal, "failed": True}, status=error.status)


def _carrying(response: HttpResponse, begun: Begun) -> HttpResponse:
    """Lax, because the answer comes from another site. Under https no page of a neighbouring host can plant
    it (`__Host-`): a planted one would sign the browser in as whoever began.
    """
    response.set_cookie(
        _cookie(),
        begun.cookie,
        max_age=flows.LIFE,
        secure=settings.CONFIG.is_https,
        httponly=True,
        samesite="Lax",
    )
    return response


def _cookie() -> str:
    return f"{'__Host-' if settings.CONFIG.is_https else ''}{COOKIE}"
