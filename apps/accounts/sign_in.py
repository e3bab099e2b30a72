"""Signing in and out: the session's life, and how often one may try. Passwords are checked by Django."""

from datetime import datetime

from django.contrib import auth
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts import actors, services
from apps.accounts.models import User
from apps.web import events, limits

TRIES, TRIES_SECONDS = 5, 60
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


def too_many_tries(request: HttpRequest, username: str, now: datetime) -> int | None:
    """Seconds to wait when this account was tried too often from this address; None when another try is free.

    Counted per account and address, so that nobody locks an owner out from elsewhere.
    """
    name = f"sign-in:{request.META.get('REMOTE_ADDR', '')}:{username.casefold()}"
    allowance = limits.count_hit(name, now=now, quota=TRIES, seconds=TRIES_SECONDS)
    return allowance.seconds if allowance and allowance.remaining < 0 else None


def sign_in(request: HttpRequest, user: User, *, way: str, now: datetime) -> None:
    """A fresh session under a new key: one that somebody planted before is worthless."""
    auth.login(request, user, backend=MODEL_BACKEND)
    request.session[actors.SIGNED_IN] = request.session[actors.TOUCHED] = int(now.timestamp())
    services.record_sign_in(actor=actors.of_user(user, request), way=way, now=now)


def sign_out(request: HttpRequest, now: datetime) -> None:
    """End the session; signing out twice changes nothing."""
    user = request.user
    if isinstance(user, User):
        services.record_sign_out(actor=actors.of_user(user, request), now=now)
    auth.logout(request)
    if isinstance(user, User):
        events.access_changed(user.pk)


def way_on(request: HttpRequest) -> str:
    """Where to go after signing in: `next` when it stays on this host, else home."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    hosts = {request.get_host()}
    return (
        wanted if url_has_allowed_host_and_scheme(wanted, hosts, require_https=request.is_secure()) else "/"
    )
