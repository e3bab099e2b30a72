"""A request id for every request, and refusals of pages as pages.

REST's refusals never come here: its views answer them themselves (`answers.exception_handler`).
"""

import uuid
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from django.conf import settings
from django.db import close_old_connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.template.loader import render_to_string

from apps.errors import DomainError, NotFound
from apps.web.problems import answers
from apps.web.problems.refusals import BadParameter
from apps.web.requests.intake import unread
from apps.web.stores import outage
from portal.operate import logs

Next = Callable[[HttpRequest], HttpResponseBase]
COMPRESSED = frozenset({"text/html", "text/csv", "application/json", "application/problem+json"})


class RequestIdMiddleware:
    """Makes the id here (a caller's own is never believed) and returns it as X-Request-Id."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:  # noqa: D102 the class says it
        request.request_id = str(uuid.uuid4())  # type: ignore[attr-defined]
        logs.begin(request_id=answers.request_id_of(request))
        response = self.get_response(request)
        response["X-Request-Id"] = answers.request_id_of(request)
        if response.status_code == 304:
            del response[
                "Content-Length"
            ]  # it has no body, and 0 would be the wrong length of the one it stands for
        if response.streaming:
            # It may last for hours: its connection to the database is for others meanwhile.
            close_old_connections()
        return response

    def process_view(
        self, request: HttpRequest, _view: object, _args: object, steps: Mapping[str, object]
    ) -> None:
        """Django's hook: whose workload it is about, for what is logged from here on."""
        found = steps.get("workload") or ("/workloads/" in request.path and steps.get("pk"))
        if found:
            logs.add(workload_id=str(found))


class CompressionMiddleware(GZipMiddleware):
    """Gzip for what is read as a page, as JSON or as a sheet.

    RULE: what hands out a secret (a token, a link, a kubeconfig with a credential) answers a POST and is sent
    as it is, as streams are; the padding is for what else somebody might guess (docs/decisions/0060).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """See Django."""
        kind = response.get("Content-Type", "").partition(";")[0]
        if response.streaming or request.method not in ("GET", "HEAD") or kind not in COMPRESSED:
            return response
        return super().process_response(request, response)


class ProblemMiddleware:
    """A refusal raised by a page's view becomes the problem page; signed out becomes the way to sign in."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """A form that was left unread is refused as such; REST says so in its own order of refusals."""
        refusal = None if is_api(request) else unread(request)
        return problem_page(refusal, request) if refusal else self.get_response(request)

    def process_view(
        self, request: HttpRequest, _view: object, _args: object, steps: Mapping[str, object]
    ) -> HttpResponse | None:
        """Django's hook: U+0000, which no database keeps, in an address, a query or a form."""
        refusal = unstorable(request, steps)
        return self.process_exception(request, refusal) if refusal else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Django's hook; None leaves what is unforeseen to the handler of status 500."""
        if isinstance(error, outage.AWAY):
            return unavailable(error, request)
        return answer(error, request) if isinstance(error, DomainError | Http404) else None


def unstorable(request: HttpRequest, steps: Mapping[str, object]) -> DomainError | None:
    """Why the request cannot be looked up anywhere: PostgreSQL fails on U+0000, SQLite finds nothing.

    REST's bodies are judged by their parser.
    """
    if any("\0" in str(step) for step in steps.values()):
        return NotFound()
    forms = [request.GET] if is_api(request) else [request.GET, request.POST]
    for form in forms:
        for name, values in form.lists():
            if any("\0" in text for text in (name, *values)):
                return BadParameter(name.replace("\0", "?"), "It holds the character U+0000.")
    return None


def is_api(request: HttpRequest) -> bool:
    """Whether this address answers problem+json."""
    return request.path.startswith("/api/")


def answer(error: BaseException, request: HttpRequest) -> HttpResponse:
    """Problem+json on REST's addresses, else the problem page."""
    return answers.problem_response(error, request) if is_api(request) else problem_page(error, request)


def unavailable(error: BaseException, request: HttpRequest) -> HttpResponse:
    """The answer without the database: of a page not even the frame can be made."""
    if is_api(request):
        return answers.problem_response(error, request)
    answers.note(error, request)
    page = render_to_string("problem/unavailable.html", {"is_full": outage.is_full(error)})
    return HttpResponse(page, status=503, headers={"Retry-After": "10", "Cache-Control": "no-store"})


def problem_page(error: BaseException, request: HttpRequest) -> HttpResponse:
    """The refusal for a person: a page, or for htmx the box that goes into #problem."""
    answers.note(error, request)
    problem = answers.problem_for(error, request)
    is_part = request.headers.get("HX-Request") == "true"
    if problem["status"] == 401 and not is_part:
        query = urlencode({"next": request.get_full_path()}) if request.method == "GET" else ""
        return HttpResponseRedirect(f"{settings.LOGIN_URL}?{query}" if query else settings.LOGIN_URL)
    shown = {
        "problem": problem,
        "request_id": "" if problem["status"] == 404 else answers.request_id_of(request),
    }
    template = "problem/page.html#box" if is_part else "problem/page.html"
    response = render(request, template, shown, status=problem["status"])
    response["Cache-Control"] = "no-store"
    if seconds := answers.retry_after(answers.as_refusal(error)):
        response["Retry-After"] = str(seconds)
    if is_part:
        # Wherever the form or part wanted its answer, a refusal goes into the box; the page stays as it is.
        response["HX-Retarget"], response["HX-Reswap"] = "#problem", "innerHTML"
        response["HX-Reselect"] = "unset"
    return response
