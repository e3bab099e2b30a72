"""HTTP to sources: time limits, a size limit, and errors in words that say what to do."""

import logging
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import orjson

from apps import tls
from apps.errors import clipped
from apps.metering.telemetry.rules.sources.limits import MOST_BYTES
from apps.metering.telemetry.rules.sources.reading import SourceSilent

_LIMITS = httpx.Timeout(20.0, connect=3.0)
_CONNECTIONS = httpx.Limits(max_keepalive_connections=16, keepalive_expiry=75.0)
"""Kept from one read to the next, for less than an API server keeps one that nobody uses (90 s). To shake
hands with each exporter anew costs more than what it tells.
"""
_ENDED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""What a request meets whose connection has just been ended at the other end."""
_LONGEST_WAIT = 3600.0
_BUSY = (429, 503)
_MOST_OF_REFUSAL, _LONGEST_REASON = 64 * 1024, 300
_TOO_MUCH = re.compile(
    r"too (many (samples|series|chunks|bytes|points)|large|long)|exceed(s|ed) (the )?(maximum|max|limit)"
    r"|timed out|deadline exceeded",
    re.IGNORECASE,
)
"""Source: Prometheus' ErrTooManySamples ("query processing would load too many samples into memory"),
ErrQueryTimeout, "exceeded maximum resolution of 11,000 points", and the limits of Thanos and Mimir.
"""
# Thousands of requests an hour, each told at INFO, would bury everything else that a worker says.
logging.getLogger("httpx").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Access:
    """By which authority (PEM) a server is known, and the token it wants; empty: the system's, and none."""

    authority: str = ""
    token_file: str = ""


class Web:
    """GET of whole answers. Follows no redirect: a source is where its operator says it is."""

    def __init__(self, access: Access) -> None:
        self._client = httpx.Client(
            verify=tls.trusting(access.authority or None), timeout=_LIMITS, limits=_CONNECTIONS
        )
        self._token_file = access.token_file

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def get(self, url: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of a 200; raises `SourceSilent` for everything else, cut-off and oversized bodies too."""
        try:
            with closing(self._answer(url, query)) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise _refusal(url, answer)
                return _body(url, answer)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise SourceSilent(f"{url} does not answer: {_words(error)}") from error

    def _answer(self, url: str, query: Mapping[str, str] | None) -> httpx.Response:
        """RULE: asked once more where the connection ends before a word of the answer: it was kept, and the
        other end may let go of it at any moment.
        """
        request = self._client.build_request("GET", url, params=query, headers=self._headers())
        try:
            return self._client.send(request, stream=True)
        except _ENDED:
            return self._client.send(request, stream=True)

    def _headers(self) -> dict[str, str]:
        """RULE: the token is read anew each time, because a projected token changes every hour."""
        if not self._token_file:
            return {}
        return {"Authorization": f"Bearer {Path(self._token_file).read_text().strip()}"}


def _body(url: str, answer: httpx.Response) -> bytes:
    found = bytearray()
    for part in answer.iter_bytes():
        found += part
        if len(found) > MOST_BYTES:
            words = f"{url} sends more than {MOST_BYTES // 1024 // 1024} MiB at once."
            raise SourceSilent(words, is_too_much=True)
    return bytes(found)


def _refusal(url: str, answer: httpx.Response) -> SourceSilent:
    wait = _retry_after(answer.headers.get("Retry-After", "")) if answer.status_code in _BUSY else 0.0
    words = {
        401: " It wants a token: set ALLOTMENT_TELEMETRY_TOKEN_FILE.",
        403: " The token may not read it.",
        404: " Nothing is at this address.",
    }.get(answer.status_code, "")
    later = f" It asked us to come back in {wait:.0f} s." if wait else ""
    reason = _reason(answer)
    is_large = answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
    said = f" It says: {reason}" if reason else ""
    message = f"{url} answers {answer.status_code}.{words}{said}{later}"
    return SourceSilent(message, retry_after=wait, is_too_much=is_large or wants_less(reason))


def wants_less(reason: str) -> bool:
    """Whether a refusal of Prometheus, Thanos or Mimir is about how much was asked for at once."""
    return _TOO_MUCH.search(reason) is not None


def shortened(reason: object) -> str:
    """A reason from outside on one line, cut."""
    return clipped(" ".join(str(reason or "").split()), _LONGEST_REASON)


def _reason(answer: httpx.Response) -> str:
    """`error` of Prometheus' JSON; empty where the body is anything else."""
    body = b""
    for part in answer.iter_bytes():
        body += part
        if len(body) > _MOST_OF_REFUSAL:
            return ""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    return shortened(told.get("error")) if isinstance(told, dict) else ""


def _retry_after(text: str) -> float:
    """Seconds of a Retry-After header, which has seconds or a date; at most an hour, 0 for nonsense."""
    if text.isascii() and text.isdecimal():
        return min(float(text), _LONGEST_WAIT)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)
    return min(max(0.0, seconds.total_seconds()), _LONGEST_WAIT)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
