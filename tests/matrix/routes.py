"""What is served: every address of the URL resolver, and every operation of the OpenAPI document."""

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.generators import SchemaGenerator

API = "/api/"
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_STEP = re.compile(r"[{<](?:\w+:)?(\w+)[}>]")


def served(urlconf: Any = None) -> dict[str, Any]:
    """Address -> view, such as `/api/v1/workloads/<str:pk>`."""
    return dict(_walk(get_resolver(urlconf), "/"))


def _walk(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, Any]]:
    for entry in resolver.url_patterns:
        route = f"{prefix}{entry.pattern}"
        if isinstance(entry, URLPattern):
            yield route, entry.callback
        else:
            yield from _walk(entry, route)


def handlers(view: Any) -> set[str]:
    """The methods that a REST view answers; of a page the view alone knows."""
    known = getattr(view, "cls", None)
    return {name.upper() for name in getattr(known, "http_method_names", ()) if hasattr(known, name)} - {
        "OPTIONS"
    }


def described(urlconf: Any = None) -> dict[str, set[str]]:
    """Address -> methods, as OpenAPI has them, the parameters' names left out."""
    document: Any = SchemaGenerator(urlconf=urlconf).get_schema(public=True)  # type: ignore[no-untyped-call]
    return {nameless(path): {method.upper() for method in item} for path, item in document["paths"].items()}


def nameless(route: str) -> str:
    """An address without the names and types of its parameters, so that two spellings compare."""
    return _STEP.sub("{}", route)


def template(route: str) -> str:
    """An address to be filled in: `/api/v1/workloads/{pk}`."""
    return _STEP.sub(r"{\1}", route)
