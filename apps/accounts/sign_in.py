"""Signing in and out: the session's life, and the step between a right password and a session.

Passwords are checked by Django, second factors by `second_factor`, tries counted by `tries`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import auth
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts import actors, passwords, services, sessions
from apps.accounts.models import User
from apps.accounts.second_factor import factors
from apps.accounts.specs import ViewEnd
from apps.accounts.viewing import services as viewing
from apps.web.streams import events

BREAK_GLASS, PASSWORD = "break-glass", "password"
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
STEP, STEP_LIFE = "second_step", timedelta(minutes=5)


@dataclass(frozen=True)
class Half:
    """Somebody whose password was right and who has to show more. It opens nothing: nobody is signed in."""

    user: User
    way_on: str
    ends_at: datetime


def sign_in(request: HttpRequest, user: User, *, way: str, now: datetime) -> None:
    """A fresh session under a new key: one that somebody planted before is worthless, and nothing of half a
    sign-in lives on in it.
    """
    request.session.flush()
    auth.login(request, user, backend=MODEL_BACKEND)
    request.session[actors.SIGNED_IN] = request.session[actors.TOUCHED] = int(now.timestamp())
    sessions.note(request, user, way=way, now=now)
    services.record_sign_in(actor=actors.of_user(user, request), way=way, now=now)


def sign_in_locally(request: HttpRequest, user: User, *, by: tuple[str, ...], now: datetime) -> None:
    """As `sign_in`, by what was shown: password, app, recovery code, passkey. Where passwords are for one
    account alone, platform engineers hear that it was used.
    """
    is_usual = passwords.is_for_everybody()
    shown = by if is_usual else (BREAK_GLASS, *(each for each in by if each != PASSWORD))
    sign_in(request, user, way="+".join(shown), now=now)
    if not is_usual:
        passwords.tell_break_glass(user, now=now)


def needs_second_step(user: User) -> bool:
    """Whether the right password is not enough: the person has a second factor, or must set one up."""
    return factors.is_set(user) or factors.is_demanded(user)


def begin_second_step(request: HttpRequest, user: User, *, way_on: str, now: datetime) -> None:
    """Keeps for 5 minutes that the password was right, in a session of nobody under a new key."""
    request.session.flush()
    request.session.set_expiry(STEP_LIFE)
    request.session[STEP] = {
        "user": str(user.pk),
        "password": user.get_session_auth_hash(),
        "ends": (now + STEP_LIFE).timestamp(),
        "way_on": way_on,
    }


def half_signed_in(request: HttpRequest, now: datetime) -> Half | None:
    """Whose password was right in this browser; None once it is over, or password or account have changed."""
    kept = request.session.get(STEP)
    if not isinstance(kept, dict) or now.timestamp() >= kept["ends"]:
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    if user is None or not passwords.is_open_to(user.username):
        return None
    if not constant_time_compare(kept["password"], user.get_session_auth_hash()):
        return None
    return Half(user, kept["way_on"], datetime.fromtimestamp(kept["ends"], now.tzinfo))


def complete_second_step(request: HttpRequest, half: Half, *, factor: str, now: datetime) -> None:
    """The rest was right too: a session like any other."""
    sign_in_locally(request, half.user, by=(PASSWORD, factor), now=now)


def sign_out(request: HttpRequest, now: datetime) -> None:
    """End the session; signing out twice changes nothing."""
    user = request.user
    if isinstance(user, User):
        key, known = request.session.session_key, actors.of_user(user, request)
        viewing.end_in(key, how=ViewEnd.SIGNED_OUT, now=now, request_id=known.request_id)
        services.record_sign_out(actor=known, now=now)
        sessions.forget(key)
    auth.logout(request)
    if isinstance(user, User):
        events.access_changed(user.pk)


def way_on(request: HttpRequest) -> str:
    """Where to go after signing in: `next` when it is a path of ours, else home."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    return wanted if url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else "/"
