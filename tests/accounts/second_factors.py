"""An account with an authenticator app, and the code that its phone shows."""

import base64
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Authenticator, User
from apps.accounts.second_factor import codes, factors
from tests.accounts.conftest import PASSWORD
from tests.conftest import as_actor

STEP_PAGE, SET_UP_PAGE = "/sign-in/second-step/", "/sign-in/second-step/set-up/"


def code_for(secret: bytes, *, ahead: int = 0, now: datetime | None = None) -> str:
    """What the phone shows now, or that many steps from now."""
    here = int((now or timezone.now()).timestamp()) // codes.STEP_SECONDS
    return codes.code_at(secret, here + ahead)


def give_app(user: User) -> tuple[bytes, list[str]]:
    """An app in force since long, and the recovery codes."""
    session, now, actor = SessionStore(), timezone.now(), as_actor(user)
    secret = factors.begin_app(session, user, now=now)
    made = factors.confirm_app(actor=actor, user=user, code=code_for(secret), session=session, now=now)
    Authenticator.objects.update(last_step=0)
    return secret, made


def secret_in(page: str) -> bytes:
    """The secret that a page shows."""
    (found,) = re.findall(r'id="secret" class="mono" readonly value="([A-Z2-7 ]+)"', page)
    return base64.b32decode(found.replace(" ", ""))


def recovery_in(page: str) -> list[str]:
    """The recovery codes that a page shows."""
    shown = page.partition('<pre id="codes"')[2].partition("</pre>")[0]
    return re.findall(r"\b[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}\b", shown)


def enter(client: Client, username: str = "ada", **more: str) -> Any:
    """The first step."""
    return client.post("/sign-in/", {"username": username, "password": PASSWORD, **more})


def opens(client: Client) -> bool:
    """Whether the browser is signed in."""
    return client.get("/api/v1/me").status_code == 200


def moved_by(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    """It is so much later from here on."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now + by)
