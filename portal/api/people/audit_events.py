"""REST of the audit record: the list, its export, and whether its chains are whole. Reads only."""

from urllib.parse import urlencode

import orjson
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actors import credential_of
from apps.accounts.specs import ScopeGroup
from apps.audit import selectors, services
from apps.audit.chain import Place, place_in
from apps.audit.models import AuditEvent
from apps.audit.specs import Wanted
from apps.errors import NotFound
from apps.tenants.live.services.audit_export import Form, export
from apps.tenants.people.selectors.audit_events import chain_of, events_for
from apps.web import self_checks
from apps.web.problems.refusals import BadParameter
from apps.web.requests.perimeter import public
from apps.web.requests.sheets import csv_lines
from apps.words import Word
from portal.api.base.negotiation import AnyAccept
from portal.api.base.references import TENANT
from portal.api.base.tables import ItemsCsv, line
from portal.api.base.views import ApiView, paginate
from portal.api.declared.declaring import answers, named, pages, refuses
from portal.api.declared.queries import Moment, OneOf, Text, Texts, WholeNumber
from portal.api.people.audit_events_bodies import (
    COLUMNS,
    AuditCheckBody,
    AuditEventBody,
    AuditLastCheckBody,
    breach_body,
    event_body,
)

JSON_LINES = "application/jsonl"
CSV = "text/csv"


class FileForm(Word):
    """What an export is written as."""

    CSV = "csv"
    JSON_LINES = "jsonl"


ACTOR = Texts("actor", "Only what these did, by username.")
ACTION = Texts("action", "Only these acts, such as workload.stop.")
KIND = Texts("kind", "Only what was done to such things, such as workload.")
TARGET = Texts("target", "Only what was done to these things, by id.")
REQUEST = Texts("request_id", "Only what these requests did.")
SINCE = Moment("since", "Only from then on.")
UNTIL = Moment("until", "Only before then.")
WORDS = Text(
    "q",
    "Words that all stand in actor, action, target, tenant, request or reason. A list looks through the "
    f"newest {selectors.LOOKED_THROUGH} events that the other parameters leave, an export through all.",
    longest=100,
)
FILTERS = (TENANT, ACTOR, ACTION, KIND, TARGET, REQUEST, SINCE, UNTIL, WORDS)
AS = OneOf("as", "How the file is written.", tuple(FileForm), FileForm.CSV)
CHAIN = Text("chain", "Only this chain: platform, or tenant:<slug>.", longest=64)
PLACE = Text("cursor", "Where the check goes on: part of the address that `next` holds.", longest=160)
LINKS = WholeNumber("limit", "How many events are looked at.", default=5000, lowest=1, highest=20_000)


class AuditEventsView(ApiView):
    """What was done: all of it for platform engineers and auditors, for leads and managers what was done in
    their tenants, for everybody what they did themselves.
    """

    scope_group = ScopeGroup.AUDIT
    lists = True
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns = COLUMNS
    sorts = ("-at",)
    parameters = FILTERS

    @pages(AuditEventBody)
    def get(self, request: Request) -> Response:
        """Newest first; several values of a parameter with commas."""
        wanted = _wanted(self, request)
        rows = selectors.narrowed(events_for(self.actor), wanted)
        found, _ = selectors.searched_lately(rows, wanted.words)
        return paginate(request, found, event_body)


class AuditExportView(ApiView):
    """The same as one file of any length."""

    scope_group = ScopeGroup.AUDIT
    parameters = (*FILTERS, AS)
    content_negotiation_class = AnyAccept

    @named("audit_events_export")
    @answers(200, str, media=CSV, headers=("Content-Disposition",))
    @answers(200, str, media=JSON_LINES, headers=("Content-Disposition",))
    def get(self, request: Request) -> HttpResponseBase:
        """Newest first, as CSV or as a JSON object per line, made while it is read.

        One whose right ends meanwhile is broken off, so that no part is taken for the whole.
        """
        return export(credential_of(request), _wanted(self, request), _form(AS.of(request)))


class AuditCheckView(ApiView):
    """Whether the chains of the record are whole."""

    scope_group = ScopeGroup.AUDIT
    parameters = (CHAIN, PLACE, LINKS)

    @named("audit_events_verify")
    @answers(200, AuditCheckBody)
    @refuses("not_found")
    def get(self, request: Request) -> Response:
        """A part of a check, for platform engineers and auditors; follow `next` to the end."""
        if not self.actor.sees_everything:
            raise NotFound
        chain = CHAIN.of(request)
        found = services.check(_place(request, chain), chain=chain, most=LINKS.of(request))
        body: AuditCheckBody = {
            "checked": found.links,
            "breaches": [breach_body(each) for each in found.breaches],
            "next": None if found.place is None else _next(request, found.place),
            "last_check": _last_check(),
        }
        return Response(body)


def _wanted(view: ApiView, request: Request) -> Wanted:
    tenant = TENANT.of(request)
    try:
        chain = "" if tenant is None else chain_of(view.actor, tenant)
    except NotFound:
        raise BadParameter("tenant", "There is no such tenant.") from None
    return Wanted(
        actors=ACTOR.of(request) or (),
        actions=ACTION.of(request) or (),
        kinds=KIND.of(request) or (),
        targets=TARGET.of(request) or (),
        requests=REQUEST.of(request) or (),
        chain=chain,
        since=SINCE.of(request),
        until=UNTIL.of(request),
        words=WORDS.of(request) or "",
    )


def _form(asked: FileForm) -> Form:
    name = f"audit-{timezone.now():%Y-%m-%d}.{asked}"
    if asked is FileForm.CSV:
        return Form(name, f"{CSV}; charset=utf-8", csv_lines([COLUMNS]).encode(), _csv)
    return Form(name, JSON_LINES, b"", _json)


def _csv(rows: list[AuditEvent]) -> bytes:
    return csv_lines(line(dict(event_body(row)), COLUMNS) for row in rows).encode()


def _json(rows: list[AuditEvent]) -> bytes:
    options = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
    return b"".join(orjson.dumps(event_body(row), option=options) for row in rows)


def _place(request: Request, chain: str | None) -> Place | None:
    """Where the check begins; None: at the start."""
    if chain is not None and not selectors.is_chain(chain):
        raise BadParameter("chain", "There is no such chain.")
    text = PLACE.of(request)
    place = None if text is None else place_in(text)
    if text is not None and (place is None or (chain is not None and place.chain != chain)):
        raise BadParameter("cursor", "The cursor is not one of ours; begin from the start.")
    return place


def _next(request: Request, place: Place) -> str:
    query = {**request.query_params.dict(), "cursor": str(place)}
    return public(f"{request.path}?{urlencode(query)}")


def _last_check() -> AuditLastCheckBody | None:
    found = self_checks.last_of(self_checks.AUDIT)
    if found is None:
        return None
    return {
        "checked_at": found.checked_at,
        "checked": found.seen,
        "breaches": found.breaches,
        "first_breach": found.first or None,
    }
