"""Which codes an operation may answer with: those that follow from what it is, and those that it declares.
Pure.
"""

from collections.abc import Mapping
from typing import Any

from apps.web.problems.codes import CODES
from portal.api.declared.declaring import Operation

ALWAYS = (
    "invalid_parameter", "unknown_parameter", "invalid_token", "not_acceptable", "rate_limited",
    "internal_error", "database_unavailable",
)  # fmt: skip
WRITES = ("malformed_request", "not_allowed")
BODIES = ("request_timeout", "body_too_large", "unsupported_media_type", "validation_failed")
KEYED = ("not_found", "idempotency_in_progress", "idempotency_key_reused")
"""A repeat is told only while its caller sees what was made: see `apps.web.requests.seeing`."""


def by_status(
    view: Any, method: str, declared: Operation, *, names_one: bool
) -> Mapping[int, tuple[str, ...]]:
    """Status -> codes, in the order of `CODES`; `names_one`: the address names an object."""
    codes = {*ALWAYS, *declared.refuses, *_of_method(view, method)}
    if view.scope_group:
        codes.add("insufficient_scope")
    if names_one:
        codes.add("not_found")
    if method in (*view.matched_methods, *view.may_match):
        codes.add("precondition_failed")
    if method in view.matched_methods:
        codes.add("precondition_required")
    found: dict[int, tuple[str, ...]] = {}
    for code, kind in CODES.items():
        if code in codes:
            found[kind.status] = (*found.get(kind.status, ()), code)
    return dict(sorted(found.items()))


def _of_method(view: Any, method: str) -> tuple[str, ...]:
    if method == "GET":
        return ()
    keyed = KEYED if method == "POST" and view.keyed else ()
    return (*WRITES, *(() if method == "DELETE" else BODIES), *keyed)
