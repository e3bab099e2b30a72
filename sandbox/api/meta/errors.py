"""Refusals in the words of the real server: one exception carrying a metav1.Status.

It decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Cause = dict[str, str]

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiError(Exception):
    """A refusal with its HTTP code, reason, message and details."""

    def __init__(
        self, code: int, message: str, *, reason: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = REASONS.get(code, "InternalError") if reason is None else reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """The metav1.Status body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(resource: str, group: str) -> str:
    """`jobs.batch`, or the bare resource for the core group."""
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    pairs = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in pairs.items() if value}


def not_found(resource: str, group: str, name: str) -> ApiError:
    """404 for one object."""
    return ApiError(
        404, f'{qualified(resource, group)} "{name}" not found', details=_details(name, group, resource)
    )


def path_not_found() -> ApiError:
    """404 for a path the server does not serve."""
    return ApiError(404, "the server could not find the requested resource", details={})


def already_exists(resource: str, group: str, name: str) -> ApiError:
    """409 on create."""
    text = f'{qualified(resource, group)} "{name}" already exists'
    return ApiError(409, text, reason="AlreadyExists", details=_details(name, group, resource))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, why: str = STALE) -> ApiError:
    """409 on a stale resourceVersion or a failed precondition."""
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return ApiError(409, text, details=_details(name, group, resource))


def forbidden(resource: str, group: str, name: str, why: str) -> ApiError:
    """403 by admission or authorization."""
    label = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    return ApiError(403, f"{label} is forbidden: {why}", details=_details(name, group, resource))


def admission_denied(webhook: str, message: str, code: int = 403) -> ApiError:
    """A webhook's refusal, worded like the real server's."""
    return ApiError(code, f'admission webhook "{webhook}" denied the request: {message}', reason="Forbidden")


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, message)


def gone(message: str) -> ApiError:
    """410 for a resourceVersion that was compacted away."""
    return ApiError(410, message, reason="Expired")


def not_simulated(resource: str) -> ApiError:
    """501: the kind exists in Kubernetes and is left out of the simulation."""
    return ApiError(501, f"{resource} is not simulated: this needs a real cluster", reason="NotImplemented")


class FieldError:
    """One field's complaint, printed like apimachinery's field.Error."""

    def __init__(self, kind: str, field: str, detail: str) -> None:
        self.kind, self.field, self.detail = kind, field, detail

    def text(self) -> str:
        """`spec.x: Required value: why`."""
        return f"{self.field}: {self.body()}"

    def body(self) -> str:
        """The complaint without its field."""
        head = {"FieldValueRequired": "Required value", "FieldValueForbidden": "Forbidden"}.get(self.kind, "")
        return f"{head}: {self.detail}" if head and self.detail else head or self.detail

    def cause(self) -> Cause:
        """The entry of details.causes."""
        return {"reason": self.kind, "message": self.body(), "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """A missing field."""
    return FieldError("FieldValueRequired", field, detail)


def field_forbidden(field: str, detail: str) -> FieldError:
    """A field that may not be set or changed."""
    return FieldError("FieldValueForbidden", field, detail)


def show(value: Any) -> str:
    """A value as field errors print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        import orjson

        return orjson.dumps(value).decode()
    return str(value)


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """A value that breaks a rule."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


def unsupported(field: str, value: Any, choices: Sequence[Any]) -> FieldError:
    """A value outside an enumeration."""
    listed = ", ".join(show(choice) for choice in choices)
    return FieldError(
        "FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {listed}"
    )


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 with every field's complaint."""
    texts = list(dict.fromkeys(error.text() for error in errors))
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = {**_details(name, group, kind), "causes": [error.cause() for error in errors]}
    return ApiError(422, f'{qualified(kind, group)} "{name}" is invalid: {joined}', details=details)
