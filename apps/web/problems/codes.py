"""Every code that a refusal may carry: its status, its title and what to do.

Pure; the pages /problems/<code> show these. A code never changes its meaning: programs switch on it
(docs/api.md).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """One kind of refusal: the status it answers with, its title, and what to do about it."""

    status: int
    title: str
    hint: str


CODES: dict[str, Code] = {
    "malformed_request": Code(400, "The request cannot be read", "Send one JSON document."),
    "invalid_parameter": Code(400, "A query parameter is wrong", "See errors[].parameter."),
    "unknown_parameter": Code(400, "A query parameter is unknown", "See errors[].parameter."),
    "invalid_token": Code(401, "No valid sign-in", "Make a new token, or sign in again."),
    "insufficient_scope": Code(403, "The token does not allow this", "Use a token with that scope."),
    "not_allowed": Code(403, "You may not do this", "Ask someone with the named role."),
    "own_request": Code(403, "Your own request", "Someone else must decide."),
    "offer_not_allowed": Code(
        403,
        "This offer is not for this tenant",
        "Take another offer, or ask a platform engineer for quota.",
    ),
    "not_found": Code(404, "Not found", "Check the id and the tenant."),
    "method_not_allowed": Code(405, "Not possible at this address", "See the Allow header."),
    "not_acceptable": Code(406, "No such representation", "Accept application/json."),
    "request_timeout": Code(408, "The request came too slowly", "Send it again; a body has 20 s to arrive."),
    "already_exists": Code(409, "It exists already", "Choose another slug, or PUT the existing one."),
    "quota_exceeded": Code(
        409, "More than the quota can ever hold", "Ask for less, or ask a platform engineer for quota."
    ),
    "does_not_fit_now": Code(409, "It does not fit now", "Wait, or take one of alternatives."),
    "budget_exceeded": Code(409, "The budget is spent", "Ask for budget."),
    "wrong_phase": Code(409, "Not possible in this phase", "Wait until it is in the named phase."),
    "extension_limit": Code(409, "It cannot be extended further", "Extend at most to extendable_until."),
    "has_dependents": Code(409, "Others depend on it", "Remove the dependents first."),
    "capability_missing": Code(409, "The cluster cannot do this", "See capabilities in clusters."),
    "idempotency_in_progress": Code(409, "The first request still runs", "Retry."),
    "cursor_expired": Code(410, "The list has moved on", "List again from the start."),
    "precondition_failed": Code(
        412, "Somebody changed it meanwhile", "GET it again, redo the change and send the new ETag."
    ),
    "body_too_large": Code(413, "The request is too large", "Send JSON, up to 1 MiB."),
    "unsupported_media_type": Code(415, "Not JSON", "Send JSON, up to 1 MiB."),
    "validation_failed": Code(422, "Some fields are wrong", "Correct the fields in errors."),
    "idempotency_key_reused": Code(
        422, "The key was used for something else", "Send a new key with a new body."
    ),
    "precondition_required": Code(
        428, "The ETag is missing", "Send If-Match with the ETag of your last GET."
    ),
    "rate_limited": Code(429, "Too many requests", "Retry after the named seconds."),
    "internal_error": Code(
        500,
        "Something went wrong here",
        "Try again with the same key. If it happens again, report the request id.",
    ),
    "cluster_unavailable": Code(
        503,
        "The cluster does not answer",
        "Try again. What you ask for meanwhile is stored and applied later.",
    ),
    "database_unavailable": Code(
        503,
        "The database does not answer, or cannot write",
        "Nothing was changed. Send the same again with the same key.",
    ),
    "telemetry_unavailable": Code(503, "The measurements do not answer", "Try again later."),
}

RETRY_AFTER_SECONDS = {
    "idempotency_in_progress": 1,
    "cluster_unavailable": 10,
    "database_unavailable": 5,
    "telemetry_unavailable": 10,
}
"""How long to wait before asking again, for the codes whose wait is not computed."""
