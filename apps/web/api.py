"""The base of every REST view: who asks, how far the token reaches, how often, which parameters are known.

What a view may do is decided by the policies of its app; this module never looks at roles.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from django.utils import timezone
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.web import limits, strangers
from apps.web.idempotency import credential_of, idempotent, told_after
from apps.web.paging import PARAMETERS as LIST_PARAMETERS
from apps.web.paging import flag, moment, paginate, paginate_together, whole_number, words
from apps.web.parsing import MergePatchParser, StrictJSONParser
from apps.web.preconditions import etag, require_match
from apps.web.refusals import InsufficientScope, InvalidToken, UnknownParameter
from apps.web.schema import ApiSchema
from apps.web.serializers import did_you_mean
from apps.web.waiting import seconds_of, wait_for

if TYPE_CHECKING:
    from apps.accounts.specs import Actor

__all__ = [
    "ApiView",
    "etag",
    "flag",
    "idempotent",
    "moment",
    "paginate",
    "paginate_together",
    "require_match",
    "told_after",
    "wait_for",
    "whole_number",
    "words",
]

WRITE_PARAMETERS = frozenset({"dry_run", "wait"})
SAFE = ("GET", "HEAD", "OPTIONS")


class ApiView(APIView):
    """A REST resource. A subclass names its `scope_group` (None: any credential may ask) and its GET's query.

    `lists` adds limit, cursor, include_total and sort; writes accept dry_run and wait. `matched_methods` are
    those that need If-Match, for the description; the view itself calls `require_match`.
    """

    scope_group: ClassVar[str | None]
    parameters: ClassVar[frozenset[str]] = frozenset()
    write_parameters: ClassVar[frozenset[str]] = WRITE_PARAMETERS
    lists: ClassVar[bool] = False
    matched_methods: ClassVar[tuple[str, ...]] = ()
    parser_classes = (StrictJSONParser,)
    schema = ApiSchema()
    allowance: limits.Allowance | None = None

    @property
    def actor(self) -> "Actor":
        """Who asks, made once per request when the credential was checked."""
        actor: Actor = self.request._request.actor  # type: ignore[attr-defined]
        return actor

    def get_parsers(self) -> list[BaseParser]:
        """PATCH also takes the media type of RFC 7396."""
        parsers = super().get_parsers()
        is_patch = getattr(self.request, "method", "") == "PATCH"
        return [*parsers, MergePatchParser()] if is_patch else list(parsers)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """In the order of docs/api.md: the token (before what it accepts), its rate, its scope, the query."""
        self._admit(request, timezone.now())
        super().initial(request, *args, **kwargs)
        self._check_scope(request)
        self._check_query(request)

    def permission_denied(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Without a credential there is only one answer."""
        raise InvalidToken

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Say what is left of the credential's requests, or of the address's."""
        final = super().finalize_response(request, response, *args, **kwargs)
        if self.allowance:
            self.allowance.describe(final)
        if not final.has_header("Cache-Control"):
            final["Cache-Control"] = "no-store"
        return final

    def _admit(self, request: Request, now: datetime) -> None:
        """Who opens something spends of its own; everybody else of what the address has."""
        base = request._request
        strangers.require_patience(base, now)
        try:
            self.check_permissions(request)
        except InvalidToken:
            self._spent(strangers.count(base, now))
            raise
        strangers.remember(base)
        policy = limits.SESSION if request.auth is None else limits.TOKEN
        self._spent(limits.spend(policy, credential_of(request), now))

    def _spent(self, allowance: limits.Allowance | None) -> None:
        self.allowance = allowance
        if allowance:
            allowance.require()

    def _check_scope(self, request: Request) -> None:
        verb = "read" if request.method in SAFE else "write"
        if self.scope_group and not self.actor.may_use(self.scope_group, verb):
            raise InsufficientScope(f"This needs a token with the scope {self.scope_group}:{verb}.")

    def _check_query(self, request: Request) -> None:
        if request.method in SAFE:
            known = self.parameters | (LIST_PARAMETERS if self.lists else frozenset())
        else:
            known = self.write_parameters
        for name in request.query_params:
            if name not in known:
                raise UnknownParameter(name, did_you_mean(name, known))
        if known & WRITE_PARAMETERS:
            # `wait` is read after the write: a wrong one must be refused before anything is stored.
            flag(request, "dry_run")
            seconds_of(request)
