"""A request as the first span of its trace: route, status and request id, never its address or its sender.

RULE: a caller's own `traceparent` is not believed, as its request id is not: anybody could have everything
recorded. What nobody waits for (health, metrics, files) is no trace.
"""

from collections.abc import Callable

from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.web import spans
from apps.web.problems import answers
from apps.web.spans import Begin
from portal.operate.measuring import route_class
from portal.operate.tracing import starting

UNTRACED = frozenset({"static", "health", "metrics"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class TraceMiddleware:
    """Around all others, so that what they cost is in it. It is left out where nothing is traced."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if not starting.is_wanted():
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:  # noqa: D102 the class says it
        if route_class(request.path, is_part=False, is_stream=False) in UNTRACED:
            return self.get_response(request)
        method = request.method if request.method in METHODS else "_OTHER"
        with spans.span(Begin(str(method), {"http.request.method": str(method)}, "server")) as span:
            response = self.get_response(request)
            if request.resolver_match is not None:
                route = f"/{request.resolver_match.route}"
                span.name(f"{method} {route}")
                span.set({"http.route": route})
            status = response.status_code
            span.set(
                {"http.response.status_code": status, "allotment.request_id": answers.request_id_of(request)}
            )
            if status >= 500:
                span.fail(str(status))
        return response
