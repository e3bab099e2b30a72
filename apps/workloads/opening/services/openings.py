"""From "Open" to the cookie on the workload's host: a code that is used once, by its person, in one browser.

A code that a signed-in person asked for is confirmed at the portal by the browser that brings it, so that
nobody comes in with, or as, another person. One that an API token asked for has no browser to be confirmed
in: whoever has it while it lives is that token.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts.actors import Credential
from apps.accounts.specs import Actor
from apps.accounts.tokens import digest
from apps.audit import services as audit
from apps.errors import Conflict, NotAllowed, NotFound
from apps.workloads.changes.services import writing
from apps.workloads.models import Opening, Workload
from apps.workloads.opening.selectors import access

CODE_LIFE = timedelta(seconds=30)
LONGEST = timedelta(hours=24)
"""As long as a sign-in at most; it ends with its credential anyway."""
OVER = "This address was used already, or its 30 seconds are over."
AGAIN = "Choose Open on the workload's page once more."


@dataclass(frozen=True)
class OneTime:
    """An address that opens a workload once, until then."""

    url: str
    expires_at: datetime


@dataclass(frozen=True)
class Entered:
    """The cookie that a code was exchanged for; None: the portal has to confirm whose browser it is."""

    cookie: str | None


@transaction.atomic
def open_workload(*, actor: Actor, credential: Credential, workload: Workload, now: datetime) -> OneTime:
    """The one-time address of a workload that runs. Rule: its owner, and its team where the owner has opened
    it to them; it is written down who opened whose.
    """
    refused = access.refusal(actor, workload)
    if refused:
        raise refused
    code = secrets.token_urlsafe(32)
    made = Opening.objects.create(
        workload=workload,
        user_id=credential.user,
        token_id=credential.token,
        session=credential.session,
        code=digest(code),
        code_ends_at=now + CODE_LIFE,
        ends_at=now + LONGEST,
    )
    of = workload.owner.username
    audit.record(actor, "workload.open", workload, now=now, changes={"of": [None, of]})
    if credential.user != workload.owner_id:
        writing.note(workload, now, "Opened", f"{actor.username} opened it.")
    return OneTime(_address(workload.pk, code), made.code_ends_at)


@transaction.atomic
def confirm(
    *, actor: Actor, credential: Credential, workload: Workload, code: str, browser: str, now: datetime
) -> str:
    """The address again, now for this browser alone: the person who asked for it is signed in here.

    Raises NotFound for what is no code any more, NotAllowed for another person's, Conflict for a second
    browser.
    """
    found = Opening.objects.filter(
        code=digest(code), workload=workload, cookie=None, is_terminal=False, code_ends_at__gt=now
    ).first()
    if found is None or len(browser) != len(found.code):
        raise NotFound(OVER)
    if found.user_id != actor.user_id:
        raise NotAllowed("This address was made for another person.", hint=AGAIN)
    bound = Opening.objects.filter(pk=found.pk, browser="").update(
        browser=browser, token=None, session=credential.session
    )
    if not bound:
        raise Conflict("This address was confirmed in another browser.", hint=AGAIN)
    return _address(found.workload_id, code)


@transaction.atomic
def enter(*, workload: UUID, code: str, browser: str, now: datetime) -> Entered:
    """Exchange a code for a cookie, once. `browser` is the digest of what the browser was given to keep.

    Raises NotFound for what is no code of this workload any more, or was confirmed in another browser.
    """
    live = Opening.objects.filter(
        code=digest(code), workload=workload, cookie=None, is_terminal=False, code_ends_at__gt=now
    )
    found = live.first()
    if found is None:
        raise NotFound(OVER)
    if found.token_id is None and not found.browser:
        return Entered(None)
    if found.browser and not secrets.compare_digest(found.browser, browser):
        raise NotFound(OVER)
    cookie = secrets.token_urlsafe(32)
    # Of two that come at once one changes the row.
    if not live.update(cookie=digest(cookie)):
        raise NotFound(OVER)
    return Entered(cookie)


def prune(*, now: datetime) -> int:
    """Forget what is over: also codes that nobody used."""
    over = Opening.objects.filter(ends_at__lte=now) | Opening.objects.filter(
        cookie=None, code_ends_at__lte=now
    )
    return over.delete()[0]


def _address(workload: UUID, code: str) -> str:
    domain = settings.CONFIG.apps
    if domain is None:
        raise RuntimeError("notebooks have no hosts here: nothing was opened that could be entered")
    return domain.entry(workload, code)
