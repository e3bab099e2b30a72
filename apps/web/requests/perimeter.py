"""What holds for every answer and every request, whoever asks: the installation's own scheme, and what the
browser may never be asked for.
"""

from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

DENIED_FEATURES = (
    *("accelerometer", "autoplay", "browsing-topics", "camera", "clipboard-read"),
    *("display-capture", "encrypted-media", "fullscreen", "gamepad", "geolocation", "gyroscope", "hid"),
    *("identity-credentials-get", "idle-detection", "interest-cohort", "keyboard-map", "local-fonts"),
    *("magnetometer", "microphone", "midi", "otp-credentials", "payment", "picture-in-picture"),
    *("publickey-credentials-create", "publickey-credentials-get", "screen-wake-lock", "serial"),
    *("storage-access", "sync-xhr", "usb", "window-management", "xr-spatial-tracking"),
)
"""Every powerful feature that pages do without, so a script that got in has none either. Those alone that
browsers know: each other one is an error in the console of every page. A page of passkeys is `allowed` its
own.
"""


def _policy(*allowed: str) -> str:
    denied = [f"{feature}=()" for feature in DENIED_FEATURES if feature not in allowed]
    return ", ".join([*denied, *(f"{feature}=(self)" for feature in allowed), "clipboard-write=(self)"])


PERMISSIONS_POLICY = _policy()
"""Ours have buttons that copy; reading what somebody copied stays denied."""
Answer = TypeVar("Answer", bound=HttpResponseBase)


def allowed(response: Answer, feature: str) -> Answer:
    """Lets this page alone use one of those that are denied elsewhere."""
    response["Permissions-Policy"] = _policy(feature)
    return response


class PerimeterMiddleware:
    """The outermost: no header of a request says how people reach us, only the configured address does."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:  # noqa: D102 the class says it
        # Django believes this header (SECURE_PROXY_SSL_HEADER): so it is ours, whatever was sent.
        request.META["HTTP_X_FORWARDED_PROTO"] = "https" if settings.CONFIG.is_https else "http"
        response = self.get_response(request)
        response.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response


def public(path: str) -> str:
    """The whole address of one of our paths, as everybody outside reaches it; never made of a request."""
    return f"{settings.CONFIG.url}{path}"
