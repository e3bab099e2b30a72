"""What REST reads and writes, and bodies with one value replaced."""

from typing import Any

from portal.api.base.views import ApiView
from tests.matrix import routes
from tests.matrix.table import load


def with_value(body: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """The body with the value at that place."""
    step, _, rest = pointer.lstrip("/").partition("/")
    inner = body.get(step)
    return {
        **body,
        step: with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value,
    }


WRITING = [
    (row, method)
    for row, entry in load().rows.items()
    for method in ("POST", "PUT", "PATCH")
    if row.startswith(routes.API) and method in entry
]


def parameters_of(view: type[ApiView]) -> list[str]:
    return sorted(each.name for each in view.query("GET"))


READS = [
    (row, parameters_of(view.cls))
    for row, view in routes.served().items()
    if issubclass(getattr(view, "cls", object), ApiView) and "GET" in routes.handlers(view)
]
