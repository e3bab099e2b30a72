"""The refusals that belong to HTTP itself: unreadable bodies, missing tokens or ETags, too many requests.

Those of the product's own rules are in `apps.errors`; both become the same kind of answer
(`apps.web.problems.answers`).
"""

from typing import Any

from apps.errors import DomainError
from apps.web.problems.codes import CODES


class Refusal(DomainError):
    """A refusal whose status and hint follow from its code (`apps.web.problems.codes`)."""

    code = "malformed_request"

    def __init__(self, detail: str, *, hint: str | None = None, **extra: Any) -> None:
        known = CODES[type(self).code]
        super().__init__(detail, hint=hint or known.hint, **extra)
        self.status = known.status


class MalformedRequest(Refusal):
    """The body is not one JSON document."""


class BadParameter(Refusal):
    """A query parameter has a value that it cannot have."""

    code = "invalid_parameter"

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(detail, errors=[{"parameter": parameter, "code": "invalid_value", "detail": detail}])


class UnknownParameter(Refusal):
    """A query parameter that this address does not know."""

    code = "unknown_parameter"

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(detail, errors=[{"parameter": parameter, "code": "unknown_field", "detail": detail}])


class InvalidToken(Refusal):
    """No token or session, or one that is wrong, expired, revoked or of a disabled user: never told apart."""

    code = "invalid_token"

    def __init__(self, detail: str = "The token is missing, unknown, expired or revoked.") -> None:
        super().__init__(detail)


class InsufficientScope(Refusal):
    """The token's scopes do not include this."""

    code = "insufficient_scope"


class BodyTooLarge(Refusal):
    """More than 1 MiB."""

    code = "body_too_large"


class RequestTimeout(Refusal):
    """The body came too slowly."""

    code = "request_timeout"


class PreconditionRequired(Refusal):
    """A change without `If-Match`."""

    code = "precondition_required"


class IdempotencyInProgress(Refusal):
    """The first request with this key has not ended."""

    code = "idempotency_in_progress"


class IdempotencyKeyReused(Refusal):
    """The key came before with another body."""

    code = "idempotency_key_reused"


class DatabaseUnavailable(Refusal):
    """The database is away, or others wrote to it for longer than a request waits."""

    code = "database_unavailable"


class RateLimited(Refusal):
    """What this credential, or this address, may ask in this window is used up."""

    code = "rate_limited"

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"The limit is reached; ask again in {retry_after} s.")
        self.retry_after = retry_after


class TooManyStreams(Refusal):
    """The person has as many streams open as one may."""

    code = "rate_limited"
    retry_after = 10

    def __init__(self, most: int) -> None:
        super().__init__(
            f"You have {most} streams open, the most that one person may have.",
            hint="Close one, or follow several tenants with one: `events` accepts a list.",
        )
