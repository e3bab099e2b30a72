"""The door's ASGI entry point."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)

from apps.web.stores import telling  # noqa: E402 - settings are there only now
from portal.door.app import door  # noqa: E402 - models are there only now

application = door()
telling.start("door")
