"""One's own ways in, and the browsers in which one is signed in: parse, call, present."""

from collections.abc import Collection
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import sessions
from apps.accounts.actors import actor_of
from apps.accounts.oidc import flows
from apps.accounts.oidc.providers import Provider
from apps.accounts.second_factor import factors, passkeys
from apps.accounts.selectors import oneself, ssh_keys_for
from apps.accounts.viewing.selectors import views_of
from apps.workloads.opening.selectors import shell_setup
from portal.pages.account.ssh_key_forms import SshKeyForm
from portal.pages.parts.answers import done, with_status
from portal.pages.parts.htmx import render_page

HERE = "/me/sign-in/"


@never_cache
@require_safe
def sign_in_ways(request: HttpRequest) -> HttpResponse:
    """How one gets in, and where one is."""
    return ways_page(request, SshKeyForm())


def ways_page(
    request: HttpRequest, key_form: SshKeyForm, *, is_open: bool = False, status: int = 200
) -> HttpResponse:
    """All ways in, with the form of a new SSH key."""
    actor, now = actor_of(request), timezone.now()
    user = oneself(actor)
    identities = list(user.identities.order_by("created_at"))
    shown = {
        "rows": sessions.sessions_of(user, now).order_by("-seen_at"),
        "here": request.session.session_key,
        "identities": identities,
        "others": _others({each.issuer for each in identities}),
        "has_password": user.has_usable_password(),
        "factor": factors.standing(user),
        "is_factor_for": factors.is_for(user),
        "views": views_of(actor, user),
        "has_passkeys": passkeys.are_possible(),
        "keys": ssh_keys_for(actor).order_by("-created_at", "pk"),
        "ssh": ssh_setup(),
        "key_form": key_form,
        "is_open": is_open,
        "failed": status != 200,
    }
    return with_status(render_page(request, "account/sessions.html", shown), status)


def _others(issuers: Collection[str]) -> list[Provider]:
    """Where one can still connect a way in."""
    return [each for each in flows.providers() if each.issuer not in issuers]


def ssh_setup() -> dict[str, str]:
    """What goes into `~/.ssh` once, as one would type it."""
    config, helper = shell_setup.config(), shell_setup.helper_url()
    return (
        {
            "fetch": f"curl -fsSo ~/.ssh/allotment-ssh {helper}\nchmod +x ~/.ssh/allotment-ssh",
            "trust": f"echo '{shell_setup.known_hosts()}' > ~/.ssh/allotment_known_hosts",
            "config": config,
        }
        if config
        else {}
    )


@require_POST
def end_session(request: HttpRequest, session: UUID) -> HttpResponse:
    """Sign one browser out."""
    actor, now = actor_of(request), timezone.now()
    sessions.end(actor=actor, user=oneself(actor), which=session, now=now)
    return done(request, "That browser is signed out.", HERE)


@require_POST
def end_others(request: HttpRequest) -> HttpResponse:
    """Sign every browser out but this one."""
    actor, now = actor_of(request), timezone.now()
    user, here = oneself(actor), request.session.session_key or ""
    count = sessions.end_all(actor=actor, user=user, now=now, but=here)
    return done(request, f"Signed out of {count} other browser{'' if count == 1 else 's'}.", HERE)
