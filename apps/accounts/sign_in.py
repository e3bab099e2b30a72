"""Signing in and out: the session's life. Passwords are checked by Django, tries counted by `tries`."""

from datetime import datetime

from django.contrib import auth
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts import actors, services
from apps.accounts.models import User
from apps.web.streams import events

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


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
    """Where to go after signing in: `next` when it is a path of ours, else home."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    return wanted if url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else "/"
