"""Requests are counted, and how long each took: by class of route and status, never by address or person."""

import time
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.web import counters

EVENT_STREAM = "text/event-stream"
_PLACES = (
    ("/api/", "api"),
    ("/static/", "static"),
    ("/healthz", "health"),
    ("/readyz", "health"),
    ("/metrics", "metrics"),
)


def route_class(path: str, *, is_part: bool, is_stream: bool) -> str:
    """What kind of thing was asked for: of few kinds, so that no caller can make the counts grow."""
    if is_stream:
        return "stream"
    place = next((name for start, name in _PLACES if path.startswith(start)), "page")
    return "part" if place == "page" and is_part else place


class MeasureMiddleware:
    """Around all others, so that what they cost is in it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:  # noqa: D102 the class says it
        began = time.perf_counter()
        response = self.get_response(request)
        route = route_class(
            request.path,
            is_part=request.headers.get("HX-Request") == "true",
            is_stream=response.streaming and response.get("Content-Type", "").startswith(EVENT_STREAM),
        )
        counters.REQUESTS.labels(route, str(response.status_code)).inc()
        counters.REQUEST_SECONDS.labels(route).observe(time.perf_counter() - began)
        return response
