"""HTTP itself: a problem code's meaning, a refused form, an unknown address, a failure, and health."""

import sys
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from apps.errors import NotAllowed, NotFound
from apps.web import health
from apps.web.problems import answers, codes
from apps.web.problems.refusals import MalformedRequest
from apps.web.stores import outage
from portal.middleware import answer, unavailable
from portal.operate import exposition


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 Django's signature
    """A form without the token of its page: the page is old, or came from elsewhere."""
    hint = "Go back, load the page again and send the form once more. Cookies must be allowed."
    detail = "Nothing was changed: the form does not belong to your sign-in."
    return answer(NotAllowed(detail, hint=hint), request)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A form that is too large or has too many fields, or a host that is not ours."""
    is_large = isinstance(exception, RequestDataTooBig)
    return answer(exception if is_large else MalformedRequest("The request cannot be read."), request)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 Django's signature
    """An unknown address answers like one that may not be seen."""
    return answer(NotFound(), request)


def server_error(request: HttpRequest) -> HttpResponse:
    """Something unforeseen, which Django logs. Without the database not even the frame can be made."""
    error = sys.exception()
    if isinstance(error, outage.AWAY):
        return unavailable(error, request)
    try:
        return answer(answers.Failure("The request could not be carried out; nothing was changed."), request)
    except DatabaseError as error:
        return unavailable(error, request)


@require_safe
def problem_code(request: HttpRequest, code: str) -> HttpResponse:
    """What a problem's `type` leads to."""
    if code not in codes.CODES:
        raise NotFound
    return render(request, "problem/code.html", {"code": code, "known": codes.CODES[code]})


@require_safe
def live(_request: HttpRequest) -> JsonResponse:
    """Answers as long as the process does."""
    return JsonResponse({"status": "ok", "checks": {}})


@require_safe
def ready(_request: HttpRequest) -> JsonResponse:
    """Whether requests should come here: 503 while the database or its schema is not there."""
    checks = health.checks()
    return _health(checks, is_ready=health.is_ready(checks))


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """What Prometheus reads, for whoever brings the installation's token; to all others it is not there."""
    if not exposition.may_read(request.headers.get("Authorization", "")):
        raise NotFound
    answer = HttpResponse(exposition.text(timezone.now()), content_type=CONTENT_TYPE_LATEST)
    answer["Cache-Control"] = "no-store"
    return answer


def _health(checks: Mapping[str, Any], *, is_ready: bool) -> JsonResponse:
    body = {"status": "ok" if is_ready else "unavailable", "checks": dict(checks)}
    return JsonResponse(body, status=200 if is_ready else 503)
