"""REST's other views of a workload: events, manifests and logs, and the stream of all that changes."""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import yaml
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actors import credential_of
from apps.accounts.specs import Actor, ScopeGroup
from apps.errors import DomainError
from apps.tenants.live.services.stream_guard import Guard, roles_of
from apps.tenants.selectors import tenants_for
from apps.web.streams import events, streaming
from apps.web.streams.hub import Heard
from apps.workloads.lifecycle.selectors import kept_logs
from apps.workloads.lifecycle.services import live, log_files
from apps.workloads.log_models import KeptLog
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from portal.api.base.negotiation import AnyAccept
from portal.api.base.views import ApiView
from portal.api.declared.declaring import EVENTS, TEXT, answers, pages, reads, refuses
from portal.api.declared.queries import Flag, Text, Texts, WholeNumber
from portal.api.workloads import workloads_bodies
from portal.api.workloads.shapes import ManifestsBody, WorkloadEventBody


class YamlRenderer(BaseRenderer):
    """`Accept: application/yaml`: the manifests as kubectl takes them."""

    media_type = "application/yaml"
    format = "yaml"

    def render(self, data: Any, *_args: Any, **_kwargs: Any) -> bytes:
        """One document per object."""
        return yaml.safe_dump_all(data["items"], sort_keys=False, allow_unicode=True).encode()


class WorkloadEvents(ApiView):
    """`workloads/{id}/events`: ours and the cluster's, newest first."""

    scope_group = "workloads"

    @pages(WorkloadEventBody)
    def get(self, _request: Request, pk: str) -> Response:
        """The lines that are still kept."""
        row = reading.workload_for(self.actor, pk)
        return Response(
            {"items": [workloads_bodies.event(line) for line in reading.events_of(row)], "next": None}
        )


class WorkloadManifests(ApiView):
    """`workloads/{id}/manifests`: what it is in Kubernetes."""

    scope_group = "workloads"
    renderer_classes = (JSONRenderer, YamlRenderer)

    @answers(200, ManifestsBody)
    def get(self, _request: Request, pk: str) -> Response:
        """JSON items, or YAML documents."""
        return Response({"items": reading.manifests_of(reading.workload_for(self.actor, pk))})


POD = Text("pod", "Of this pod; the first one's where it is absent.")
CONTAINER = Text(
    "container",
    "Of this container of the pod; without it of the main one, or of the init container that failed before.",
)
TAIL = WholeNumber("tail", "How many of the last lines.", default=500, lowest=1, highest=live.MOST_LINES)
SINCE = WholeNumber(
    "since", "Of how many last seconds; 0: of all.", default=0, lowest=0, highest=366 * 24 * 3600
)
PREVIOUS = Flag(
    "previous", "Of the container's run before the present one, where it was started again; not with follow."
)
FOLLOW = Flag("follow", "Go on as a stream of server-sent events, one per line.")
KEPT = Flag(
    "kept", "The whole log that was kept of the last run that is over, though it runs again: 10 MB at most."
)
KEPT_AT = "Log-Kept-At"


class WorkloadLogs(ApiView):
    """`workloads/{id}/logs`: text, or with `follow=true` a stream of server-sent events, one per line."""

    scope_group = "workloads"
    parameters = (POD, CONTAINER, TAIL, SINCE, PREVIOUS, FOLLOW, KEPT)
    content_negotiation_class = AnyAccept

    @answers(200, str, media=TEXT, headers=(KEPT_AT,))
    @answers(200, str, media=EVENTS, headers=(KEPT_AT,))
    @refuses("wrong_phase", "cluster_unavailable")
    def get(self, request: Request, pk: str) -> HttpResponseBase:
        """Read from the cluster at this moment; once the pods are gone, what was kept of the last run."""
        row = reading.workload_for(self.actor, pk)
        which = {"pod": POD.of(request) or "", "container": CONTAINER.of(request) or ""}
        tail, since = TAIL.of(request), SINCE.of(request)
        if KEPT.of(request):
            return self._whole(request, row, which)
        if FOLLOW.of(request):
            return self._followed(request, row, which, tail)
        if PREVIOUS.of(request):
            lines = live.Lines(live.logs(row, tail=tail, since_seconds=since, previous=True, **which))
        else:
            lines = live.last_lines(row, tail=tail, since_seconds=since, **which)
        answer = HttpResponse(lines.text, content_type=log_files.MEDIA)
        return _said_when(answer, lines.kept)

    def _followed(
        self, request: Request, row: Workload, which: dict[str, str], tail: int
    ) -> HttpResponseBase:
        kept = None
        try:
            batches = live.follow(row, tail=tail, **which)
        except DomainError as refusal:
            kept = live.instead(row, refusal, **which)
            batches = kept_logs.batches(kept, tail)
        guard = log_files.guard_of(credential_of(request), row)
        return _said_when(streaming.answer(_followed(batches), guard), kept)

    def _whole(self, request: Request, row: Workload, which: dict[str, str]) -> HttpResponseBase:
        kept = live.kept(row, **which)
        return _said_when(log_files.file_of(credential_of(request), row, kept), kept)


def _said_when(answer: HttpResponseBase, kept: KeptLog | None) -> HttpResponseBase:
    """RULE: a kept log is never taken for a live one."""
    if kept is not None:
        answer[KEPT_AT] = kept.kept_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return answer


TENANTS = Texts("tenant", "Only of these tenants, by slug.")
TYPES = Texts("type", "Only of these types, such as workload.updated.")


class EventStream(ApiView):
    """`events`: a hint for every change the caller may see; fetch the object for its content."""

    scope_group = "workloads"
    parameters = (TENANTS, TYPES)
    content_negotiation_class = AnyAccept

    @answers(200, str, media=EVENTS)
    @reads("Last-Event-ID", "The last id heard: what was missed comes first, else `reset`.")
    def get(self, request: Request) -> HttpResponseBase:
        """Server-sent events; with Last-Event-ID first those after it, or `event: reset`: list again."""
        asked = set(TENANTS.of(request) or ()) - {""}
        types = set(TYPES.of(request) or ()) - {""}
        guard = Guard(credential_of(request), lambda actor: _visible(actor, asked))
        topics = topics_of(self.actor, [slug for slug, _ in _visible(self.actor, asked)])
        since = request.headers.get("Last-Event-ID")
        told = events.stream(topics, _only(types), guard.hurry, has_ids=True, since=since)
        return streaming.answer(told, guard)


def topics_of(actor: Actor, tenants: Iterable[str]) -> list[str]:
    """What a credential hears: these tenants and, with the right to read messages, what its person alone is
    told. A credential limited to tenants hears only those: a message does not say whose it is.
    """
    is_whole = actor.tenants is None and actor.may_use(ScopeGroup.NOTIFICATIONS, "read")
    own = [f"user:{actor.user_id}"] if is_whole else []
    return [*own, *(f"tenant:{slug}" for slug in sorted(tenants))]


def _visible(actor: Actor, asked: set[str]) -> frozenset[tuple[str, str | None]]:
    """The tenants that it sees and hears of here, and in which role."""
    tenants = tenants_for(actor).filter(slug__in=asked) if asked else tenants_for(actor)
    roles = roles_of(actor)
    return frozenset((slug, roles.get(slug)) for slug in tenants.values_list("slug", flat=True))


def _only(types: set[str]) -> events.Render:
    def render(heard: Heard) -> bytes:
        return events.as_events(heard) if not types or heard.data.get("type") in types else b""

    return render


async def _followed(batches: AsyncGenerator[Sequence[str], None]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(batches):
            async for batch in batches:
                yield "".join(map(_line, batch)).encode()
    except DomainError as refusal:
        # The answer has begun, so its status cannot change any more: the stream says it.
        told = json.dumps({"code": refusal.code, "detail": refusal.detail})
        yield f"event: problem\ndata: {told}\n\n".encode()
    yield b"event: end\ndata: {}\n\n"


def _line(text: str) -> str:
    """One event. A carriage return also ends a line there, so what follows it is sent as data too; otherwise
    a container could write events of its own.
    """
    return "".join(f"data: {part}\n" for part in text.split("\r")) + "\n"
