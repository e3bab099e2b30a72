"""The web process with less patience, so that its limits can be waited for."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.conf import settings

from portal import asgi, protocol
from portal.edge import Edge

protocol.HEAD_SECONDS = SECONDS = 2.0
Protocol = protocol.Protocol
application = Edge(
    asgi.Handler(), limit=asgi.application.limit, seconds=SECONDS, cookie=settings.SESSION_COOKIE_NAME
)


def seed() -> str:
    """A department `research`, and the token of a platform engineer."""
    from django.utils import timezone

    from apps.accounts.services import create_token
    from tests import factories
    from tests.conftest import as_actor

    petra = factories.make_user("petra", platform_role="platform")
    factories.make_department(factories.make_cluster(), "research")
    asked = {"name": "edge", "scopes": [], "tenants": [], "expires_in_days": 1, "now": timezone.now()}
    return create_token(actor=as_actor(petra), **asked)[1]  # type: ignore[arg-type]
