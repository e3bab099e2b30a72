"""A kept log as a download: the same right as reading it, looked after while it is sent."""

from django.http.response import HttpResponseBase

from apps.accounts.actors import Credential
from apps.tenants.live.services.stream_guard import Guard
from apps.tenants.selectors import role_of
from apps.web.streams import streaming
from apps.workloads.lifecycle.selectors import kept_logs
from apps.workloads.log_models import KeptLog
from apps.workloads.models import Workload
from apps.workloads.selectors import reading

MEDIA = "text/plain; charset=utf-8"


def guard_of(credential: Credential, row: Workload) -> Guard:
    """Watches over the right to a workload's log."""
    return Guard(credential, lambda actor: role_of(actor, reading.workload_for(actor, row.pk).tenant))


def file_of(credential: Credential, row: Workload, log: KeptLog) -> HttpResponseBase:
    """All that is kept of it."""
    name = f"{row.slug}-{log.pod}.log"
    guard = guard_of(credential, row)
    return streaming.file(kept_logs.whole(log), guard, name=name, media=MEDIA)
