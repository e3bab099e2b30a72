"""The Celery application: hints in, nothing out. The database says what is due; the clock asks it."""

import os

from celery import Celery

from portal.operate import of_celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("allotment", task_cls=of_celery.PatientTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(related_name="periodic")
of_celery.connect()
