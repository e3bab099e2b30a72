"""Every refusal and failure as one answer: problem+json (RFC 9457) for REST, the same words for pages.

It words nothing itself: the words come with the error or from `problems.codes`. Unknown exceptions are logged
with the request id and answered without a trace of what happened inside.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions as drf
from rest_framework.request import Request

from apps.errors import DomainError, Invalid, NotAllowed, NotFound
from apps.web import counters
from apps.web.problems import codes, refusals
from apps.web.problems.field_problems import field_problems
from apps.web.stores import outage

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


class Failure(refusals.Refusal):
    """Something unforeseen; what it was stands in the log under the request id."""

    code = "internal_error"


class Framework(refusals.Refusal):
    """A refusal that the REST framework made: method, media type, representation."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail, hint=codes.CODES[code].hint)
        self.code, self.status = code, codes.CODES[code].status


def as_refusal(error: BaseException) -> DomainError:
    """The refusal that an exception means; anything unknown is an internal error."""
    if isinstance(error, DomainError):
        return error
    if isinstance(error, Http404 | drf.NotFound):
        return NotFound()
    if isinstance(error, PermissionDenied | drf.PermissionDenied):
        return _forbidden(error)
    if isinstance(error, drf.ValidationError):
        return Invalid(field_problems(error.detail))
    if isinstance(error, drf.APIException):
        return _framework(error)
    return _unforeseen(error)


def _unforeseen(error: BaseException) -> DomainError:
    if isinstance(error, RequestDataTooBig):
        return refusals.BodyTooLarge("The body is larger than 1 MiB.")
    if outage.is_full(error):
        words = "The disk of the database is full: what is there can be read, and nothing can be changed."
        return refusals.DatabaseUnavailable(words)
    if isinstance(error, outage.AWAY):
        return refusals.DatabaseUnavailable("The database does not answer, or too many write at once.")
    return Failure("The request could not be carried out; nothing was changed.")


def _forbidden(error: PermissionDenied | drf.PermissionDenied) -> DomainError:
    detail = str(getattr(error, "detail", error)) or "You may not do this."
    if "CSRF" in detail:
        return NotAllowed(
            detail, hint="Send the header X-CSRFToken with the page's token, or use an API token."
        )
    return NotAllowed(detail)


def _framework(error: drf.APIException) -> DomainError:
    if isinstance(error, drf.AuthenticationFailed | drf.NotAuthenticated):
        return refusals.InvalidToken()
    if isinstance(error, drf.ParseError):
        return refusals.MalformedRequest(str(error.detail))
    known = {
        drf.MethodNotAllowed: "method_not_allowed",
        drf.NotAcceptable: "not_acceptable",
        drf.UnsupportedMediaType: "unsupported_media_type",
    }
    code = known.get(type(error), "internal_error")
    return Framework(code, str(error.detail))


def request_id_of(request: HttpRequest | Request | None) -> str:
    """The id that the middleware gave this request; empty where none ran."""
    return str(getattr(request, "request_id", ""))


def problem_for(error: BaseException, request: HttpRequest | Request | None) -> dict[str, Any]:
    """The problem as RFC 9457 has it, plus code, hint and errors.

    A 404 never names the request, so that an unknown and an invisible thing answer byte for byte the same.
    """
    refusal = as_refusal(error)
    known = codes.CODES.get(refusal.code)
    problem: dict[str, Any] = {
        "type": f"{settings.CONFIG.url}/problems/{refusal.code}",
        "title": known.title if known else refusal.detail,
        "status": refusal.status,
        "detail": refusal.detail,
        "instance": None if refusal.status == 404 else f"urn:uuid:{request_id_of(request)}",
        "code": refusal.code,
        "hint": refusal.hint,
        "errors": [
            {"pointer": f"#{item.pointer}", "code": item.code, "detail": item.detail}
            for item in getattr(refusal, "problems", ())
        ],
    }
    return {**problem, **refusal.extra}


def note(error: BaseException, request: HttpRequest | Request | None) -> None:
    """Count the refusal; log what nobody foresaw, under the id that the caller is shown. An outage is logged
    once.
    """
    refusal = as_refusal(error)
    counters.PROBLEMS.labels(refusal.code).inc()
    is_failure = refusal.status == 500 or isinstance(refusal, refusals.DatabaseUnavailable)
    if is_failure and not outage.noted(error):
        log.error("%s in request %s", refusal.code, request_id_of(request), exc_info=error)


def retry_after(refusal: DomainError) -> int | None:
    """Seconds after which asking again makes sense; None where it never does."""
    return getattr(refusal, "retry_after", None) or codes.RETRY_AFTER_SECONDS.get(refusal.code)


def problem_response(error: BaseException, request: HttpRequest | Request | None) -> HttpResponse:
    """The answer of REST: problem+json with the headers that belong to the code."""
    note(error, request)
    refusal = as_refusal(error)
    body = json.dumps(problem_for(error, request), ensure_ascii=False, separators=(",", ":"))
    response = HttpResponse(body.encode(), status=refusal.status, content_type=MEDIA_TYPE)
    seconds = retry_after(refusal)
    if seconds:
        response["Retry-After"] = str(seconds)
    if refusal.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="allotment"'
    response["Cache-Control"] = "no-store"
    return response


def exception_handler(error: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """The REST framework's hook: every exception of a view ends here."""
    response = problem_response(error, context.get("request"))
    view = context.get("view")
    if isinstance(error, drf.MethodNotAllowed) and view is not None:
        response["Allow"] = ", ".join(view.allowed_methods)
    return response
