"""Issues of telemetry that an actor sees. Reads only."""

from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering.models import TelemetryIssue


def issues_for(actor: Actor) -> QuerySet[TelemetryIssue]:
    """What was ever wrong with telemetry. It is of clusters, so for those who see the whole fleet; raises
    NotFound for everybody else, to whom an empty list would say that all is well.
    """
    if not actor.sees_everything:
        raise NotFound
    return TelemetryIssue.objects.select_related("cluster")
