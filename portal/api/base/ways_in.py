"""The two ways in, for REST's description of itself; registered by being imported (`portal.api.urls`)."""

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """An API token."""

    target_class = "portal.api.base.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002 the framework's signature
        """An HTTP bearer scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "alt_..."}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The portal's session."""

    target_class = "portal.api.base.authentication.PortalSessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002 the framework's signature
        """A cookie."""
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}
