"""Turns an API server's answer, or its failure to answer, into an error of this app. Pure.

Source: Kubernetes API conventions (Status objects), HTTP status codes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from apps.cluster.errors import WEBHOOK_AWAY, Conflict, Expired, Rejected, Throttled, Unreachable
from apps.cluster.gateway.certificates import failed_check, refused
from apps.cluster.specs import Body, EventType, WatchEvent

_OTHER_MANAGER = re.compile(r'conflicts? with "([^"]+)"')
_WEBHOOK = re.compile(r'failed calling webhook "([^"]+)"')


def refusal(code: int, headers: Mapping[str, str], raw: bytes, own: bytes = b"") -> Exception:
    """The error that an answer of 400 or more is, whatever its body holds; the wait is in seconds. Of a 401
    `own` is the certificate (PEM) that was refused, which may have expired.
    """
    if words := refused(own, datetime.now(UTC)) if own else "":
        return Unreachable(words, reason="Unauthorized")
    try:
        status: Body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        status = {"message": raw[:300].decode(errors="replace").strip()}
    wait = headers.get("Retry-After", "")
    return judge(code, status if isinstance(status, dict) else {}, float(wait) if wait.isdigit() else 1.0)


def judge(code: int, status: Mapping[str, Any], retry_after: float) -> Exception:
    """The error that a Status object means. Source: Kubernetes API conventions, HTTP status codes."""
    message = status.get("message") or f"The API server answers {code}."
    reason = status.get("reason") or ""
    causes = [str(cause.get("message", "")) for cause in (status.get("details") or {}).get("causes") or []]
    kinds: dict[int, Callable[[], Exception]] = {
        401: lambda: Unreachable(f"The cluster refuses our credentials: {message}", reason="Unauthorized"),
        409: lambda: Conflict(message, managers=_managers([message, *causes]), causes=causes),
        410: lambda: Expired(message),
        429: lambda: Throttled(message, retry_after=retry_after),
    }
    if code in kinds:
        return kinds[code]()
    if code == 500 and message.startswith("failed to create typed patch object"):
        # The server's way of refusing an unknown field in an apply.
        return Rejected(422, "Invalid", message, causes)
    if code >= 500:
        # Admission webhooks of Kueue fail closed: while it is down, the API server answers 500 for every pod.
        # The rest of the message is an address, and members read these words.
        if webhook := _WEBHOOK.search(message):
            words = f"The cluster's webhook {webhook[1]} does not answer."
            return Unreachable(words, reason=WEBHOOK_AWAY)
        return Unreachable(message)
    return Rejected(code, reason, message, causes)


def _managers(texts: Sequence[str]) -> list[str]:
    return sorted({name for text in texts for name in _OTHER_MANAGER.findall(text)})


def silence(error: Exception, own: bytes = b"") -> str:
    """Why there was no answer, short enough for a page: the innermost cause.

    It leaves out the address: members read these words too and need not know where the API server is.
    """
    cause: BaseException = error
    while (deeper := getattr(cause, "reason", None) or cause.__cause__) and isinstance(deeper, BaseException):
        cause = deeper
    if words := failed_check(cause, own):
        return f"The cluster does not answer: {words}."
    words = re.sub(r"^\[Errno -?\d+\] ", "", str(cause).rsplit(": ", 1)[-1].strip()) or type(cause).__name__
    return f"The cluster does not answer: {words}."


def event(line: Body) -> WatchEvent:
    """One line of a watch; raises what the server says went wrong."""
    if line["type"] == "ERROR":
        status = line["object"]
        raise judge(int(status.get("code") or 500), status, 0.0)
    return WatchEvent(EventType(line["type"]), line["object"])
