"""The portal's live stream: which topics a person may listen to. What travels is in `apps.web.events`."""

from uuid import UUID

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from django.views.decorators.http import require_GET

from apps.accounts.actors import actor_of, of_user
from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants.selectors import tenant_for
from apps.web import events
from apps.workloads.selectors import workload_for

MOST_TOPICS = 20


@require_GET
async def live(request: HttpRequest) -> StreamingHttpResponse:
    """`/live/?on=workload:<uuid>`: names of changed parts; one topic that may not be seen refuses all."""
    topics = request.GET.getlist("on")[:MOST_TOPICS]
    if not topics or not await sync_to_async(_may_open)(request, topics):
        raise NotFound
    return events.sse(topics, events.as_parts, sync_to_async(lambda: _may_stay(request, topics)))


def _may_open(request: HttpRequest, topics: list[str]) -> bool:
    return may_hear_all(actor_of(request), topics)


def _may_stay(request: HttpRequest, topics: list[str]) -> bool:
    """Asked while the stream is open, so from fresh rows: the session, the person, the memberships."""
    user_id = actor_of(request).user_id
    user = User.objects.filter(pk=user_id, is_active=True).first() if user_id else None
    if user is None or not request.session.exists(request.session.session_key or ""):
        return False
    return may_hear_all(of_user(user, request), topics)


def may_hear_all(actor: Actor, topics: list[str]) -> bool:
    """Whether each topic is about something that the actor sees."""
    return all(_may_hear(actor, *topic.partition(":")[::2]) for topic in topics)


def _may_hear(actor: Actor, about: str, key: str) -> bool:
    try:
        match about:
            case "workload":
                workload_for(actor, UUID(key))
            case "tenant":
                tenant_for(actor, key)
            case "user":
                return key == str(actor.user_id)
            case _:
                return about == "console" and not key and actor.sees_everything
    except (NotFound, ValueError):
        return False
    return True
