"""What of a request's and an answer's headers goes through the door. Pure."""

from collections.abc import Iterable
from urllib.parse import urlsplit

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
}  # fmt: skip
OURS = (b"allotment_", b"__host-allotment_")
"""How the names of the portal's cookies and of the door's begin."""
WEBSOCKET = (b"sec-websocket-",)
REWRITTEN = {b"authorization", b"cookie", b"forwarded"}
UNSAFE_FRAMES = (b"iframe", b"frame", b"object", b"embed")


def value(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The header's value; None where it is absent or stands there more than once."""
    found = [each for key, each in headers if key == name]
    return found[0] if len(found) == 1 else None


def cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The cookie's value; empty where it is absent, or there more than once: then one of them was planted."""
    found = {text for key, text in _cookies(headers) if key == name.encode()}
    return found.pop().decode("latin-1") if len(found) == 1 else ""


def is_foreign(method: str, headers: Headers, origin: str) -> bool:
    """Whether another page than the workload's own makes the browser ask: every other workload's page is of
    the same site, so its requests carry the cookie.

    RULE: an `Origin` is this one; another site or host may only lead here, in the whole window, by GET.
    """
    given = [each for key, each in headers if key == b"origin"]
    if any(each != origin.encode() for each in given):
        return True
    if value(headers, b"sec-fetch-site") not in (b"same-site", b"cross-site"):
        return False
    is_visit = method in ("GET", "HEAD") and value(headers, b"sec-fetch-mode") == b"navigate"
    return not is_visit or value(headers, b"sec-fetch-dest") in UNSAFE_FRAMES


def to_pod(headers: Headers, host: str, scheme: str, authorization: bytes | None) -> Headers:
    """What the pod hears: no cookie of ours, nothing that only concerns this hop, and `authorization`; None:
    what came.
    """
    kept = [
        (key, each)
        for key, each in _passed(headers)
        if key not in REWRITTEN and not key.startswith((b"x-forwarded-", *WEBSOCKET))
    ]
    others = b"; ".join(
        key + b"=" + text for key, text in _cookies(headers) if not key.lower().startswith(OURS)
    )
    kept += [(b"cookie", others)] if others else []
    came = value(headers, b"authorization")
    told = came if authorization is None else authorization
    return [
        *kept,
        *([(b"authorization", told)] if told else []),
        (b"x-forwarded-host", host.encode()),
        (b"x-forwarded-proto", scheme.encode()),
    ]


def to_browser(headers: Headers) -> Headers:
    """What the browser hears: cookies for this host alone, and none that are named as ours."""
    kept: Headers = []
    for key, each in _passed([(key.lower(), each) for key, each in headers]):
        if key != b"set-cookie":
            kept.append((key, each))
        elif not each.strip().lower().startswith(OURS):
            parts = [part for part in each.split(b";") if not part.strip().lower().startswith(b"domain=")]
            kept.append((key, b";".join(parts)))
    return kept


def leads_away(status: int, headers: Headers, origin: str) -> str:
    """Where an answer sends the browser to, if that is another host; empty where it stays."""
    location = value([(key.lower(), each) for key, each in headers], b"location")
    if not 300 <= status < 400 or location is None:
        return ""
    # As browsers read it: backslashes are slashes, and control characters are not there.
    text = "".join(c for c in location.decode("latin-1") if c > " ").replace("\\", "/")
    own = urlsplit(origin)
    try:
        parts = urlsplit(text)
    except ValueError:
        return text
    is_here = parts.scheme in ("", own.scheme) and parts.netloc in ("", own.netloc)
    return "" if is_here and (parts.netloc or not text.startswith("//")) else text


def _passed(headers: Headers) -> Headers:
    named = {
        name.strip().lower() for key, each in headers if key == b"connection" for name in each.split(b",")
    }
    return [(key, each) for key, each in headers if key not in HOP_BY_HOP | named]


def _cookies(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = [part for key, each in headers if key == b"cookie" for part in each.split(b";")]
    return [(key, text) for key, sign, text in (part.strip().partition(b"=") for part in given) if sign]
