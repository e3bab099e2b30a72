"""REST's other views of a workload: events, manifests and logs, and the stream of all that changes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import yaml
from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import ApiToken, User
from apps.accounts.specs import Actor
from apps.errors import DomainError
from apps.tenants.selectors import tenants_for
from apps.web import events
from apps.web.api import ApiView
from apps.web.declaring import EVENTS, TEXT, answers, pages, reads, refuses
from apps.web.queries import Flag, Text, Texts, WholeNumber
from apps.workloads import live, selectors, serializers
from apps.workloads.bodies import ManifestsBody, WorkloadEventBody


class YamlRenderer(BaseRenderer):
    """`Accept: application/yaml`: the manifests as kubectl takes them."""

    media_type = "application/yaml"
    format = "yaml"

    def render(self, data: Any, *_args: Any, **_kwargs: Any) -> bytes:
        """One document per object."""
        return yaml.safe_dump_all(data["items"], sort_keys=False, allow_unicode=True).encode()


class AnyAccept(BaseContentNegotiation):
    """These answers have one form each, whatever the client says it accepts."""

    def select_parser(self, _request: Request, parsers: Any) -> Any:
        """The first."""
        return parsers[0]

    def select_renderer(self, _request: Request, renderers: Any, _format_suffix: Any = None) -> Any:
        """The first."""
        return renderers[0], renderers[0].media_type


class WorkloadEvents(ApiView):
    """`workloads/{id}/events`: ours and the cluster's, newest first."""

    scope_group = "workloads"

    @pages(WorkloadEventBody)
    def get(self, _request: Request, pk: str) -> Response:
        """The lines that are still kept."""
        row = selectors.workload_for(self.actor, pk)
        return Response(
            {"items": [serializers.event(line) for line in selectors.events_of(row)], "next": None}
        )


class WorkloadManifests(ApiView):
    """`workloads/{id}/manifests`: what it is in Kubernetes."""

    scope_group = "workloads"
    renderer_classes = (JSONRenderer, YamlRenderer)

    @answers(200, ManifestsBody)
    def get(self, _request: Request, pk: str) -> Response:
        """JSON items, or YAML documents."""
        return Response({"items": selectors.manifests_of(selectors.workload_for(self.actor, pk))})


POD = Text("pod", "Of this pod; the first one's where it is absent.")
CONTAINER = Text("container", "Of this container of the pod.")
TAIL = WholeNumber("tail", "How many of the last lines.", default=500, lowest=1, highest=live.MOST_LINES)
SINCE = WholeNumber(
    "since", "Of how many last seconds; 0: of all.", default=0, lowest=0, highest=366 * 24 * 3600
)
FOLLOW = Flag("follow", "Go on as a stream of server-sent events, one per line.")


class WorkloadLogs(ApiView):
    """`workloads/{id}/logs`: text, or with `follow=true` a stream of server-sent events, one per line."""

    scope_group = "workloads"
    parameters = (POD, CONTAINER, TAIL, SINCE, FOLLOW)
    content_negotiation_class = AnyAccept

    @answers(200, str, media=TEXT)
    @answers(200, str, media=EVENTS)
    @refuses("wrong_phase", "cluster_unavailable")
    def get(self, request: Request, pk: str) -> HttpResponseBase:
        """Read from the cluster at this moment; nothing is stored."""
        row = selectors.workload_for(self.actor, pk)
        which = {"pod": POD.of(request) or "", "container": CONTAINER.of(request) or ""}
        tail, since = TAIL.of(request), SINCE.of(request)
        if FOLLOW.of(request):
            return _streamed(live.follow(row, tail=tail, **which))
        text = live.logs(row, tail=tail, since_seconds=since, **which)
        return HttpResponse(text, content_type="text/plain; charset=utf-8")


TENANTS = Texts("tenant", "Only of these tenants, by slug.")
TYPES = Texts("type", "Only of these types, such as workload.updated.")


class EventStream(ApiView):
    """`events`: a hint for every change the caller may see; fetch the object for its content."""

    scope_group = "workloads"
    parameters = (TENANTS, TYPES)
    content_negotiation_class = AnyAccept

    @answers(200, str, media=EVENTS)
    @reads("Last-Event-ID", "Set by who was away: the first event is then `reset`.")
    def get(self, request: Request) -> HttpResponseBase:
        """Server-sent events. Nothing is replayed: who was away is told to list again (`event: reset`)."""
        visible = set(tenants_for(self.actor).values_list("slug", flat=True))
        asked = set(TENANTS.of(request) or ()) - {""}
        topics = sorted(f"tenant:{slug}" for slug in (visible & asked if asked else visible))
        types = set(TYPES.of(request) or ()) - {""}
        actor = self.actor
        token = request.auth if isinstance(request.auth, ApiToken) else None

        def may_stay() -> bool:
            close_old_connections()
            seen = set(tenants_for(actor).values_list("slug", flat=True))
            return _is_live(actor, token) and visible <= seen

        stream = events.stream([*topics, f"user:{actor.user_id}"], _only(types), sync_to_async(may_stay))
        return _sse(_reset_first(stream) if request.headers.get("Last-Event-ID") else stream)


def _is_live(actor: Actor, token: ApiToken | None) -> bool:
    """Whether the credential still opens what it opened: asked of fresh rows while a stream is open."""
    users = User.objects.filter(username=actor.username, is_active=True, platform_role=actor.platform_role)
    if token is None:
        return users.exists()
    tokens = ApiToken.objects.filter(pk=token.pk, revoked_at=None, expires_at__gt=timezone.now())
    return users.exists() and tokens.exists()


def _only(types: set[str]) -> Callable[[Mapping[str, Any]], bytes]:
    def render(message: Mapping[str, Any]) -> bytes:
        return events.as_events(message) if not types or message["data"].get("type") in types else b""

    return render


async def _reset_first(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield b"event: reset\ndata: {}\n\n"
    async for chunk in stream:
        yield chunk


def _streamed(lines: Iterator[str]) -> StreamingHttpResponse:
    async def chunks() -> AsyncIterator[bytes]:
        try:
            while (line := await asyncio.to_thread(next, lines, None)) is not None:
                yield f"data: {line}\n\n".encode()
        except DomainError as refusal:
            # The answer has begun, so its status cannot change any more: the stream says it.
            told = json.dumps({"code": refusal.code, "detail": refusal.detail})
            yield f"event: problem\ndata: {told}\n\n".encode()
        yield b"event: end\ndata: {}\n\n"

    return _sse(chunks())


def _sse(chunks: AsyncIterator[bytes]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(chunks, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response
