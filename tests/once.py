"""What one process does once, and what every test would do again.

A plugin. A test has a client of its own, and a client builds the middleware anew: whitenoise then looks at
every static file. A test with URLs of its own has Django forget all that it knew of others', though it knows
them by name. Both took longer than most tests. And of each template that a page is made of, Django's client
keeps a copy of all that was known there: no test reads it, they look at what the page shows.
"""

from typing import Any

import django.urls
import django.urls.base
import pytest
from django.conf import settings
from django.template import Template
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]

_static_files: dict[tuple[object, ...], dict[str, Any]] = {}
_look_at_all = WhiteNoiseMiddleware.add_files_from_finders


def _look_once(self: WhiteNoiseMiddleware) -> None:
    key = (self.static_prefix, self.max_age, *map(str, settings.STATICFILES_DIRS))
    if key not in _static_files:
        _look_at_all(self)
        _static_files[key] = dict(self.files)
    self.files.update(_static_files[key])


WhiteNoiseMiddleware.add_files_from_finders = _look_once
_render = Template._render  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def templates_render_unheard(django_test_environment: None) -> None:
    """After pytest-django has let the client listen; it puts Django's own way back at the end."""
    Template._render = _render  # type: ignore[attr-defined]


django.urls.clear_url_caches = django.urls.base.clear_url_caches = lambda: None
