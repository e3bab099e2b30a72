"""A request sent twice with one key is done once and gets the same answer twice: REST's POSTs, pages' forms.

Only 2xx answers (for a form: where it led) are kept, for 24 hours, per credential and path. The key's row
is written in the transaction of the object, so that neither can exist without the other. While the first
runs a second is told so: a lock of the database, which ends with that transaction however it ends, so that
the retry of a request whose process died is not kept waiting. SQLite has one writer: there the second waits.
"""

import hmac
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import CharField, JSONField, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from apps.prepared import Prepared, PreparedInsert, PreparedUpdate
from apps.transactions import whole
from apps.web.models import IdempotencyKey
from apps.web.problems.refusals import IdempotencyInProgress, IdempotencyKeyReused, MalformedRequest
from apps.web.requests.kept_keys import KEPT
from apps.web.requests.seeing import require_seen

KEPT_HEADERS = ("Location", "ETag")
FORM_FIELDS = ("csrfmiddlewaretoken", "key")
"""Fields of every form that are not what the form asks for."""


@dataclass(frozen=True)
class Answer:
    """What is kept of a 2xx."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_replayed: bool = False


class _Refused(Exception):
    """Carries a REST answer that is not 2xx out of the transaction, which is thereby rolled back."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def idempotent(request: Request, make: Callable[[], Response], *, secrets: Collection[str] = ()) -> Response:
    """Run `make` once per Idempotency-Key; a repeat gets the first answer, its top fields `secrets` null.

    `make` runs inside the transaction: it must not wait for the cluster. Without a key, and for a dry run,
    it simply runs. The same key with another body is refused (422), as is one whose first request still
    runs (409).
    """
    wanted = _asked(request)
    if wanted is None:
        return make()
    made: list[Response] = []

    def answer() -> Answer:
        made.append(make())
        return _kept(made[0], secrets)

    try:
        kept = _keep(wanted, answer)
    except _Refused as refused:
        return refused.response
    return _again(request, kept) if kept.is_replayed else made[0]


def told_after(request: Request, make: Callable[[], Response], tell: Callable[[str], Response]) -> Response:
    """As `idempotent`, for what must not wait for its own answer: `make` only writes and says where it is
    (Location, no body) in the transaction that it is given; once that is stored, and workers are awake,
    `tell` makes the answer from there.

    A request that dies between the two leaves a key without an answer: the repeat tells it.
    """
    wanted = _asked(request)
    if wanted is None:
        with whole():
            made = make()
        return made if made.data is not None else tell(made["Location"])
    try:
        kept = _keep(wanted, lambda: _kept(make(), ()))
    except _Refused as refused:
        return refused.response
    if kept.body is not None:
        return _again(request, kept)
    answer = tell(kept.headers["Location"])
    told = _kept(answer, ())
    _TELL(wanted.credential, wanted.path, wanted.key, told.body, dict(told.headers))
    return _again(request, told) if kept.is_replayed else answer


def once(request: HttpRequest, make: Callable[[], str]) -> str:
    """For a page's form with a hidden `key` (a UUID made with the page): run `make` once per key, and
    return where it led; a repeat leads to the same place. A form without a usable key simply runs.
    """
    key = request.POST.get("key", "")
    try:
        UUID(key)
    except ValueError:
        return make()
    body = {name: request.POST.getlist(name) for name in request.POST if name not in FORM_FIELDS}
    wanted = _wanted(f"user:{request.user.pk}", request.path, key, body)
    kept = _keep(wanted, lambda: Answer(status=201, headers={"Location": make()}))
    return str(kept.headers["Location"])


def credential_of(request: Request) -> str:
    """What a key belongs to: the token, or the session's user, also while that one views somebody."""
    token_id = getattr(request.auth, "pk", None)
    user = getattr(request._request, "viewer", request.user)
    return f"token:{token_id}" if token_id else f"user:{user.pk}"


def _asked(request: Request) -> IdempotencyKey | None:
    """The key that a request came with; None where it has none, and for a dry run."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not key.isprintable() or not 1 <= len(key) <= 200:
        raise MalformedRequest("Idempotency-Key is 1 to 200 printable characters.")
    if request.query_params.get("dry_run") == "true":
        return None
    return _wanted(credential_of(request), request.path, key, request.data)


def _again(request: Request, kept: Answer) -> Response:
    """RULE: a repeat is answered only while the caller sees what the first one made or acted on: somebody who
    left the tenant or lost the role meanwhile learns no more than anybody else.
    """
    require_seen(request, kept.headers.get("Location", request.path))
    return Response(kept.body, status=kept.status, headers={**kept.headers, "Idempotency-Replayed": "true"})


def _wanted(credential: str, path: str, key: str, body: Any) -> IdempotencyKey:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    wanted = IdempotencyKey(credential=credential, path=path, key=key)
    wanted.body_hash = _digest(settings.SECRET_KEY, text)
    # The first request may have come before the secret key was changed.
    wanted.hashes = [wanted.body_hash, *(_digest(former, text) for former in settings.SECRET_KEY_FALLBACKS)]
    return wanted


def _digest(secret_key: str, text: str) -> str:
    # Keyed: a body may hold a secret, and a copy of the database shall let nobody try which.
    return hmac.new(secret_key.encode(), text.encode(), "sha256").hexdigest()


def _kept(response: Response, secrets: Collection[str]) -> Answer:
    if not 200 <= response.status_code < 300:
        raise _Refused(response)
    body = json.loads(json.dumps(response.data, cls=JSONEncoder))
    if secrets:
        body = {name: None if name in secrets else value for name, value in body.items()}
    headers = {name: response[name] for name in KEPT_HEADERS if response.has_header(name)}
    return Answer(response.status_code, body, headers)


def _keep(wanted: IdempotencyKey, make: Callable[[], Answer]) -> Answer:
    """RULE: whoever writes a key has it in hand, so that between the look at what is stored and the write
    nobody else writes it.
    """
    with whole():
        is_alone = _is_alone(wanted)
        stored = _stored(wanted)
        if stored is not None:
            return stored
        if not is_alone:
            raise IdempotencyInProgress("The first request with this key still runs.")
        answer = make()
        wanted.status, wanted.response, wanted.headers = answer.status, answer.body, dict(answer.headers)
        _KEEP(wanted)
        return answer


def _stored(wanted: IdempotencyKey) -> Answer | None:
    stored = _SAME.first(wanted.credential, wanted.path, wanted.key)
    if stored is None:
        return None
    if stored.created_at < timezone.now() - KEPT:
        IdempotencyKey.objects.filter(pk=stored.pk).delete()
        return None
    if stored.body_hash not in wanted.hashes:
        raise IdempotencyKeyReused("This key came before with another body.")
    return Answer(stored.status, stored.response, stored.headers, is_replayed=True)


def _same(credential: Any, path: Any, key: Any) -> QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.filter(credential=credential, path=path, key=key)


_SAME = Prepared(_same, CharField(), CharField(), CharField())
_KEEP = PreparedInsert(IdempotencyKey)
_TELL = PreparedUpdate(
    lambda credential, path, key, body, headers: (
        _same(credential, path, key),
        {"response": body, "headers": headers},
    ),
    CharField(),
    CharField(),
    CharField(),
    JSONField(),
    JSONField(),
)


def _is_alone(wanted: IdempotencyKey) -> bool:
    """Whether no other transaction has this key in hand; from then on others see that this one has."""
    if connection.vendor != "postgresql":
        return True
    name = json.dumps(["idempotency", wanted.credential, wanted.path, wanted.key])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 7))", [name])
        return bool(cursor.fetchone()[0])
