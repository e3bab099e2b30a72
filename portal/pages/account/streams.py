"""The portal's live stream: which topics a person may listen to. What travels is in `streams.events`."""

from collections.abc import Hashable
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from apps.accounts.actors import credential_of
from apps.accounts.specs import Actor
from apps.errors import DomainError, NotFound
from apps.tenants.live.services.stream_guard import Guard
from apps.tenants.selectors import role_of, tenant_for
from apps.web.streams import events, streaming
from apps.workloads.selectors.reading import workload_for

MOST_TOPICS = 20


@require_GET
def live(request: HttpRequest) -> HttpResponseBase:
    """`/live/?on=workload:<uuid>`: names of changed parts; one topic that may not be seen refuses all."""
    topics = request.GET.getlist("on")[:MOST_TOPICS]
    if not topics:
        raise NotFound
    guard = Guard(
        credential_of(request), lambda actor: tuple(right_to_hear(actor, topic) for topic in topics)
    )
    heard = [*topics, f"user:{guard.person}"]
    return streaming.answer(events.stream(heard, events.as_parts, guard.hurry), guard)


def may_hear_all(actor: Actor, topics: list[str]) -> bool:
    """Whether each topic is about something that the actor sees."""
    try:
        return bool([right_to_hear(actor, topic) for topic in topics])
    except DomainError:
        return False


def right_to_hear(actor: Actor, topic: str) -> Hashable:
    """In which role the actor hears of the topic; raises NotFound for what it does not see."""
    about, _, key = topic.partition(":")
    try:
        match about:
            case "workload":
                return role_of(actor, workload_for(actor, UUID(key)).tenant)
            case "tenant":
                return role_of(actor, tenant_for(actor, key))
            case "user" if key == str(actor.user_id):
                return key
            case "console" if not key and actor.sees_everything:
                return about
    except ValueError:
        raise NotFound from None
    raise NotFound
