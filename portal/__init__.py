"""The Django project: settings, routes, Celery, ASGI. Composition only; nothing imports it."""

from portal.celery import app as celery_app

__all__ = ["celery_app"]
