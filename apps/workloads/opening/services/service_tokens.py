"""The tokens of a service: made, rotated, revoked. Their texts are shown once."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.accounts import tokens
from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict
from apps.ranges import MOST_SERVICE_TOKENS
from apps.workloads.changes.services import writing
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import service_access
from apps.workloads.token_models import ServiceToken

NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class Made:
    """A token with its text, which is nowhere else."""

    token: ServiceToken
    text: str


@transaction.atomic
def make_token(*, actor: Actor, workload: Workload, name: str, now: datetime) -> Made:
    """Rule: its owner, and leads where the team opens it; the token ends with their access."""
    row = writing.locked(actor, workload, require=service_access.require_tokens)
    _require_service(row)
    writing.require_alive(row)
    there = service_access.tokens_of(row)
    if there.filter(name=name).exists():
        raise AlreadyExists(f"{row.slug} has a token {name}.", hint="Rotate that one, or take another name.")
    if there.count() >= MOST_SERVICE_TOKENS:
        raise Conflict(f"A service has at most {MOST_SERVICE_TOKENS} tokens.", hint="Revoke one first.")
    made = tokens.generate(secrets.token_bytes(tokens.RANDOM_BYTES))
    token = ServiceToken.objects.create(
        workload=row,
        name=name,
        made_by=User.objects.get(username=actor.username),
        made_with_id=actor.token_id,
        prefix=made.prefix,
        digest=made.digest,
        created_at=now,
    )
    _record(actor, token, "make", now)
    return Made(token, made.text)


@transaction.atomic
def rotate_token(
    *, actor: Actor, workload: Workload, token: UUID, keep_old_seconds: int, now: datetime
) -> Made:
    """Another text for it; the one of before opens for so many seconds more. Rule: as `make_token`; from then
    on it hangs on the access of whoever rotated it. A text that opens nothing any more is not revived, and
    one that still opens beside the present one is not ended in passing: both are Conflicts.
    """
    row = writing.locked(actor, workload, require=service_access.require_tokens)
    writing.require_alive(row)
    found = service_access.token_of(row, token)
    made = tokens.generate(secrets.token_bytes(tokens.RANDOM_BYTES))
    if keeps := keep_old_seconds > 0:
        _require_one_of_before(found, now)
    found.old_digest = found.digest if keeps else None
    found.old_ends_at = now + timedelta(seconds=keep_old_seconds) if keeps else None
    found.digest, found.prefix, found.rotated_at = made.digest, made.prefix, now
    found.made_by, found.made_with_id = User.objects.get(username=actor.username), actor.token_id
    found.save()
    _record(actor, found, "rotate", now, keep_old_seconds=[None, keep_old_seconds])
    return Made(found, made.text)


@transaction.atomic
def revoke_token(*, actor: Actor, workload: Workload, token: UUID, now: datetime) -> None:
    """It opens nothing from now on. Rule: whoever may stop or change the service."""
    row = writing.locked(actor, workload)
    found = service_access.token_of(row, token)
    found.revoked_at, found.old_digest, found.old_ends_at = now, None, None
    found.save()
    _record(actor, found, "revoke", now)


def note_use(token: ServiceToken, now: datetime) -> None:
    """At most once a minute: a write that changes nothing would wait for every other writer all the same."""
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - NOTED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - NOTED_EVERY:
        ServiceToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def _require_one_of_before(token: ServiceToken, now: datetime) -> None:
    if not service_access.opens_now(token):
        words = f"{token.made_by.username} does not open it any more, so its text opens nothing."
        raise Conflict(words, hint="Rotate it without keeping the text of before.")
    if token.old_ends_at and token.old_ends_at > now:
        words = f"The text of before still opens, until {token.old_ends_at:%Y-%m-%d %H:%M} UTC."
        raise Conflict(words, hint="Rotate it after that, or let both texts end at once.")


def _require_service(row: Workload) -> None:
    if not service_access.takes_tokens(row):
        raise Conflict(f"A {row.kind} has no tokens: only programs that call a service need one.")


def _record(actor: Actor, token: ServiceToken, verb: str, now: datetime, **changes: object) -> None:
    told = {"token": [None, token.name], **changes}
    audit.record(actor, f"service-token.{verb}", token, now=now, changes=told)
    words = {"make": "made", "rotate": "rotated", "revoke": "revoked"}[verb]
    writing.note(token.workload, now, "TokenChanged", f"{actor.username} {words} the token {token.name}.")
