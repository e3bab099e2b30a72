"""How a REST request's body comes in: once, before any transaction, and refused only where it is used.

If the edge of the process (`portal.edge`) did not read it, only the reason is known here.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request

from apps.errors import DomainError
from apps.web.problems.refusals import BodyTooLarge, InvalidToken, RequestTimeout

UNREAD = "allotment.unread"
"""The key of the ASGI scope under which stands why the body was not read: a code of `REASONS`."""
REASONS: dict[str, Callable[[], DomainError]] = {
    "body_too_large": lambda: BodyTooLarge("The body is larger than 1 MiB."),
    "request_timeout": lambda: RequestTimeout("The body did not come in time."),
    "invalid_token": InvalidToken,
}


def unread(request: HttpRequest) -> DomainError | None:
    """Why the body of this request was left unread; None where it was read."""
    code = getattr(request, "scope", {}).get(UNREAD)
    return REASONS[code]() if code else None


class ApiRequest(Request):
    """A request whose body is decoded by `take_body`; one that cannot be is refused each time `data` is used.

    A long document must not be decoded inside a transaction, and callers who may not write must not learn of
    its mistakes. So decoding and refusing happen apart.
    """

    _wrong: Exception | None = None

    def take_body(self) -> None:
        """Decode the body now; raises nothing."""
        self._wrong = unread(self._request)
        if self._wrong is None:
            try:
                _ = super().data
            except Exception as error:  # noqa: BLE001 whatever it is, it is raised where the body is used
                self._wrong = error

    @property
    def data(self) -> Any:
        """The document; raises what made it unreadable."""
        if self._wrong is not None:
            raise self._wrong
        return super().data
