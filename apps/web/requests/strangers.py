"""Counts REST requests without a valid credential, per client address.

A credential that was valid once in this process is not counted. So somebody who guesses behind the same
address, or behind an undeclared proxy, does not shut out the people who work there.
"""

import hashlib
from collections import OrderedDict
from datetime import datetime
from threading import Lock

from django.conf import settings
from django.http import HttpRequest

from apps.web.requests import limits
from apps.web.requests.client_address import client_network

MOST_KNOWN = 4096
_known: "OrderedDict[str, None]" = OrderedDict()
_lock = Lock()


def require_patience(request: HttpRequest, now: datetime) -> None:
    """Before anything is looked up: refuses a credential never seen here from an address that has used up
    its guesses.
    """
    credential = _credential(request)
    if credential is None or credential in _known:
        return
    allowance = limits.left(limits.STRANGER, client_network(request), now)
    if allowance:
        allowance.require()


def count(request: HttpRequest, now: datetime) -> limits.Allowance | None:
    """Counts one more request without a valid credential from this address."""
    return limits.spend(limits.STRANGER, client_network(request), now)


def remember(request: HttpRequest) -> None:
    """Remembers a valid credential, and forgets the one that was unused longest."""
    credential = _credential(request)
    with _lock:
        if credential is not None:
            _known[credential] = None
            _known.move_to_end(credential)
        if len(_known) > MOST_KNOWN:
            _known.popitem(last=False)


def forget() -> None:
    """Know nobody."""
    with _lock:
        _known.clear()


def _credential(request: HttpRequest) -> str | None:
    """A fingerprint of what the request brings: a token, else a session; None where it brings neither."""
    brought = request.META.get("HTTP_AUTHORIZATION") or request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    return hashlib.sha256(brought.encode(errors="replace")).hexdigest() if brought else None
