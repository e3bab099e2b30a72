"""The base of every REST view: who asks, how far the token reaches, how often, which parameters are known.

What a view may do is decided by the policies of its app; this module never looks at roles.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.web.problems.refusals import BadParameter, InsufficientScope, InvalidToken, UnknownParameter
from apps.web.requests import limits, strangers
from apps.web.requests.idempotency import credential_of, idempotent, told_after
from apps.web.requests.intake import ApiRequest
from portal.api.base.paging import paginate, paginate_whole
from portal.api.base.paging import parameters as list_parameters
from portal.api.base.parsing import MergePatchParser, StrictJSONParser
from portal.api.base.preconditions import describe, etag, require_absent, require_match
from portal.api.base.schema import ApiSchema
from portal.api.base.serializers import did_you_mean
from portal.api.base.waiting import WAIT, wait_for
from portal.api.base.writing import DRY_RUN
from portal.api.declared.queries import Parameter

if TYPE_CHECKING:
    from apps.accounts.specs import Actor

__all__ = [
    "ApiView",
    "etag",
    "idempotent",
    "paginate",
    "paginate_whole",
    "require_absent",
    "require_match",
    "told_after",
    "wait_for",
]

SAFE = ("GET", "HEAD", "OPTIONS")


def scope_of(view: "ApiView | type[ApiView]", method: str) -> tuple[str | None, str]:
    """The scope that a method of a view needs: its group, None for any credential, and the verb."""
    if method in SAFE or method in view.asks_only:
        return view.scope_group, "read"
    return view.write_group or view.scope_group, "write"


class ApiView(APIView):
    """A REST resource. A subclass names its `scope_group` (None: any credential may ask), `write_group` where
    writes need another, and its query.

    `asks_only` are methods other than GET that store nothing: a token that reads may use them.

    `parameters` are those of GET; `lists` adds the page's and `sorts` (the first is the usual order) to them.
    `write_parameters` are those of every other method. `matched_methods` are those that need If-Match,
    `may_match` those that heed it, and `keyed` says whether POST heeds Idempotency-Key: for the description;
    the view itself calls `require_match` and `idempotent`.
    """

    scope_group: ClassVar[str | None]
    write_group: ClassVar[str | None] = None
    asks_only: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[tuple[Parameter[Any], ...]] = ()
    write_parameters: ClassVar[tuple[Parameter[Any], ...]] = (DRY_RUN, WAIT)
    lists: ClassVar[bool] = False
    sorts: ClassVar[tuple[str, ...]] = ("-created_at", "updated_at", "slug")
    matched_methods: ClassVar[tuple[str, ...]] = ()
    may_match: ClassVar[tuple[str, ...]] = ()
    keyed: ClassVar[bool] = True
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

    def initialize_request(self, request: HttpRequest, *_args: Any, **_kwargs: Any) -> ApiRequest:
        """As the framework does, with a body that is read before the handler runs."""
        return ApiRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """In the order of docs/api.md: the token (before what it accepts), its rate, its scope, the method,
        the query.

        Last the body: decoded before any transaction, refused by whoever uses it.
        """
        self._admit(request, timezone.now())
        super().initial(request, *args, **kwargs)
        self._check_scope(request)
        if request.method not in self.allowed_methods:
            self.http_method_not_allowed(request)
        self._check_query(request)
        if isinstance(request, ApiRequest) and request.method not in SAFE:
            request.take_body()

    def permission_denied(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Without a credential there is only one answer: 401."""
        raise InvalidToken

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Say what is left of the credential's requests, or of the address's, and which answer it is."""
        final = super().finalize_response(request, response, *args, **kwargs)
        if self.allowance:
            self.allowance.describe(final)
        describe(request, final)
        return final

    def _admit(self, request: Request, now: datetime) -> None:
        """A valid credential has a limit of its own; everybody else shares the limit of the address."""
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
        group, verb = scope_of(self, str(request.method))
        if group and not self.actor.may_use(group, verb):
            raise InsufficientScope(f"This needs a token with the scope {group}:{verb}.")

    @classmethod
    def query(cls, method: str) -> tuple[Parameter[Any], ...]:
        """The query parameters of a method."""
        if method not in SAFE:
            return cls.write_parameters
        return cls.parameters + (list_parameters(cls.sorts) if cls.lists else ())

    def _check_query(self, request: Request) -> None:
        known = {each.name: each for each in self.query(request.method or "GET")}
        for name, given in request.query_params.lists():
            if name not in known:
                raise UnknownParameter(name, did_you_mean(name, set(known)))
            # One of them would be heeded, and nobody told which.
            if len(given) > 1:
                several = ", several values with commas" if known[name].several else ""
                raise BadParameter(name, f"Give {name} once{several}.")
            # `wait` is read after the write: a wrong one must be refused before anything is stored.
            known[name].of(request)
