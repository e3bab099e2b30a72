"""A PostgreSQL and a Redis for a benchmark that needs no cluster, and Django in this process upon them."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import services


@contextmanager
def database() -> Iterator[Path]:
    """Migrated, empty; gone afterwards with all that its folder holds. Once per process: Django is set up on
    it.
    """
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        home = Path(folder)
        os.environ["ALLOTMENT_HOME"] = folder
        os.environ["ALLOTMENT_DATABASE_URL"] = services.postgres(home)
        os.environ["ALLOTMENT_REDIS_URL"] = services.redis(home)
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        # Whoever ends the run ends its PostgreSQL, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            _prepare()
            yield home
        finally:
            services.down(home)


@contextmanager
def demo(home: Path) -> Iterator[None]:
    """Django in this process upon what a demo has left."""
    os.environ |= {"ALLOTMENT_HOME": str(home.resolve()), "ALLOTMENT_DATABASE_URL": "", "ALLOTMENT_DEMO": "1"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        os.environ["ALLOTMENT_REDIS_URL"] = services.redis(Path(folder))
        try:
            _prepare()
            yield
        finally:
            services.down(Path(folder))


def _prepare() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
