"""Whether the caller still sees a thing. The thing's own GET decides, so that no rule is written twice."""

from copy import copy
from typing import Any

from django.http import QueryDict
from django.urls import Resolver404, ResolverMatch, resolve
from rest_framework.request import Request


def require_seen(request: Request, path: str) -> None:
    """Raises what a GET of this address would raise now, except for scopes and limits, which this request has
    passed.

    An address without a GET, such as `workloads/{id}/stop`, stands for the next one above that has one.
    """
    match = _reader(path)
    http = copy(request._request)
    http.method, http.path, http.GET = "GET", path, QueryDict()
    view: Any = match.func.cls(**match.func.initkwargs)  # type: ignore[attr-defined]
    view.setup(http, *match.args, **match.kwargs)
    view.request = view.initialize_request(http, *match.args, **match.kwargs)
    view.request.user, view.request.auth = request.user, request.auth
    view.request.accepted_renderer, view.request.accepted_media_type = view.perform_content_negotiation(
        view.request, force=True
    )
    view.get(view.request, *match.args, **match.kwargs)


def _reader(path: str) -> ResolverMatch:
    """The view that answers GET at this address, or at the next above it."""
    try:
        match = resolve(path)
    except Resolver404:
        match = None
    known: Any = getattr(match.func, "cls", None) if match else None
    if match and hasattr(known, "get") and "get" in known.http_method_names:
        return match
    above, _, _ = path.rpartition("/")
    if not above:
        raise LookupError("no address above answers GET")
    return _reader(above)
