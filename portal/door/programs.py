"""Programs that call a service: a token in `Authorization: Bearer`, and answers for whoever wrote them."""

from http import HTTPStatus

from starlette.responses import JSONResponse, Response

from apps.accounts.tokens import looks_valid
from apps.errors import ClusterUnavailable, DomainError
from portal.door import headers, passing
from portal.door.ways import MOST_CONNECTIONS, Over

BEARER = b"bearer "
NO_TOKEN = "The token in Authorization opens no service here, or not any more."  # noqa: S105 - words


def token(given: headers.Headers) -> str:
    """The token that a request brings; empty where what it brings is none of ours."""
    text = headers.value(given, b"authorization") or b""
    if text[: len(BEARER)].lower() != BEARER:
        return ""
    found = text[len(BEARER) :].strip().decode("latin-1")
    return found if looks_valid(found) else ""


def said(error: Exception) -> Response:
    """Why nothing came of it."""
    match error:
        case Over():
            return _problem(401, "invalid_token", NO_TOKEN, "Make one on the service's page.")
        case ClusterUnavailable() | passing.Away():
            return _problem(502, "bad_gateway", "The service does not answer.", "Ask again.")
        case passing.Busy():
            words = f"{MOST_CONNECTIONS} requests of this token run at once."
            return _problem(503, "too_many_at_once", words, "Ask again once some have ended.")
        case DomainError():
            return _problem(error.status, str(error.code), error.detail, error.hint or "")
    return _problem(503, "unavailable", "Nobody can say at present who may come in.", "Ask again.")


def _problem(status: int, code: str, detail: str, hint: str) -> Response:
    """A problem (RFC 9457), as REST answers it; `error` is where clients of OpenAI's API look."""
    title = HTTPStatus(status).phrase
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
        "hint": hint,
        "error": {"message": f"{detail} {hint}".strip(), "type": code, "code": code},
    }
    more = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status, {})
    return JSONResponse(
        body, status, headers={"Cache-Control": "no-store", **more}, media_type="application/problem+json"
    )
