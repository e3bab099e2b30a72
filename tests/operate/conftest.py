"""What the suites of the operator's tools share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.utils import timezone
from pytest_django import Settings

from apps.cluster.models import Cluster
from apps.web.stores import telling
from apps.web.stores.telling import Teller
from portal.operate import service_checks
from tests.conftest import Cast
from tests.factories import make_user
from tests.web.broker import broker, no_broker, redis_server

__all__ = ["broker", "no_broker", "redis_server"]
PIECES = [{"name": name, "available": True, "version": None, "message": ""} for name in ("kueue", "policies")]


@pytest.fixture
def well(cast: Cast, broker: str, settings: Settings, tmp_path: Path) -> Iterator[None]:
    """Every process has just told that it lives, and the cluster has just answered."""
    server = redis.Redis.from_url(broker)
    server.flushall()
    make_user("second", platform_role="platform")
    Cluster.objects.update(last_seen_at=timezone.now(), capabilities=PIECES)
    settings.CONFIG = settings.CONFIG.model_copy(update={"redis_url": broker, "home": tmp_path})
    for kind in service_checks.KINDS:
        Teller(kind).tell()
    telling.note_run(service_checks.CLOCKED)
    Teller("").tell()
    yield
    server.flushall()
