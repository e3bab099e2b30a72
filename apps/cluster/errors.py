"""What can go wrong between us and a cluster, in five kinds; `client` translates into these and into nothing
else.

Pure. `Unreachable` and its children are also the `ClusterUnavailable` that a page or the REST API answers
with 503.
"""

from collections.abc import Sequence

from apps.errors import ClusterUnavailable

WEBHOOK_AWAY = "WebhookUnavailable"
"""The reason of an `Unreachable` whose API server answers, while a webhook that fails closed does not."""


class Unreachable(ClusterUnavailable):
    """No usable answer: the network, the credentials, or a server that is itself in trouble. Trying again
    helps.
    """

    reason = "ClusterUnavailable"

    def __init__(self, detail: str, *, reason: str = "") -> None:
        super().__init__(detail)
        self.reason = reason or type(self).reason


class Throttled(Unreachable):
    """The server asks us to slow down; `retry_after` is in seconds."""

    reason = "Throttled"

    def __init__(self, detail: str, *, retry_after: float) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Rejected(Exception):
    """The server understood and refused. Trying the same again does not help; its words are shown as they
    are.
    """

    def __init__(self, status: int, reason: str, message: str, causes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or f"Http{status}"
        self.message = message
        self.causes = tuple(causes)

    @property
    def is_absent(self) -> bool:
        """Whether the object, its namespace or its whole kind is not there."""
        return self.status == 404


class Conflict(Rejected):
    """Somebody else holds it: `managers` names the other field managers, empty for any other conflict."""

    def __init__(self, message: str, *, managers: Sequence[str] = (), causes: Sequence[str] = ()) -> None:
        super().__init__(409, "Conflict", message, causes)
        self.managers = tuple(managers)


class Expired(Rejected):
    """The version to go on from is no longer kept (410): list again."""

    def __init__(self, message: str) -> None:
        super().__init__(410, "Expired", message)
