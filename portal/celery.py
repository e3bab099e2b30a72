"""The Celery application: hints in, nothing out. The database says what is due; the clock asks it."""

import os
import sys

from celery import Celery

from portal.operate import of_celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# Django's checks read every page and all of REST, 35 MB that no worker has a use for. `migrate` runs them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("allotment", task_cls=of_celery.PatientTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(related_name="periodic")
app.autodiscover_tasks(["portal"], related_name="rounds")
# A worker keeps its connection to the database: Celery would make a new one for each task. One that breaks is
# replaced (of_celery.PatientTask).
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize
of_celery.connect()
