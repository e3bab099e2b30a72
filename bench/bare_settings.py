"""Settings of the bare reference of `SUITE=api`: the product's database and models, DRF's defaults."""

from portal.settings import *  # noqa: F403 - all but what follows

MIDDLEWARE = []
ROOT_URLCONF = "bench.bare_api"
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "UNAUTHENTICATED_USER": None,
}
