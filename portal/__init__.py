"""The Django project: settings, routes, Celery, ASGI. Its rooms `pages` and `api` are the surfaces."""

from portal.celery import app as celery_app

__all__ = ["celery_app"]
