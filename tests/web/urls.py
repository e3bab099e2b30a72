"""The addresses of these suites: views that do one thing each, before all of the installation's own."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.errors import NotAllowed, NotFound, QuotaExceeded
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, etag, idempotent, require_match, told_after
from portal.api.declared.queries import Text
from portal.pages.parts.htmx import render_page
from tests.factories import make_user


class SizeSerializer(StrictSerializer):
    """Nested, to see pointers."""

    memory = serializers.CharField(max_length=8)
    count = serializers.IntegerField(min_value=1)


class ThingSerializer(StrictSerializer):
    """One of everything."""

    name = serializers.CharField()
    size = SizeSerializer(required=False)
    tags = serializers.ListField(child=serializers.IntegerField(), required=False)
    made_by = serializers.CharField(read_only=True)


class Thing:
    """At generation 3."""

    generation = 3


class ThingView(ApiView):
    """Reads, makes a user (so that something is stored), and changes nothing."""

    scope_group = "workloads"
    parameters = (Text("tenant", "Of this tenant."),)

    def get(self, _request: Request) -> Response:
        """With its ETag."""
        return Response({"actor": self.actor.username}, headers={"ETag": etag(Thing())})

    def post(self, request: Request) -> Response:
        """Makes a user of that name."""
        return idempotent(request, lambda: self._make(request), secrets=("secret",))

    def _make(self, request: Request) -> Response:
        asked = ThingSerializer.checked(request.data)
        made = make_user(asked["name"])
        if asked["name"] == "too-much":
            raise QuotaExceeded("9 asked, at most 8 possible.", quota={"requested": 9})
        body = {"id": str(made.id), "name": made.username, "secret": "shown once"}
        return Response(body, status=201, headers={"Location": f"/api/v1/things/{made.id}", "ETag": '"1"'})

    def patch(self, request: Request) -> Response:
        """Only with the ETag."""
        require_match(request, Thing.generation)
        return Response({"changed": sorted(request.data)})


class SlowlyToldView(ApiView):
    """Makes a user, and tells of it once it is stored."""

    scope_group = "workloads"

    def get(self, _request: Request) -> Response:
        """What a repeat asks first: whether the caller still sees it."""
        return Response({})

    def post(self, request: Request) -> Response:
        """Makes a user of that name."""
        return told_after(request, lambda: self._make(request), self._tell)

    def _make(self, request: Request) -> Response:
        made = make_user(ThingSerializer.checked(request.data)["name"])
        if made.username == "too-much":
            raise QuotaExceeded("9 asked, at most 8 possible.", quota={"requested": 9})
        return Response(None, status=201, headers={"Location": f"/api/v1/told/{made.pk}"})

    def _tell(self, where: str) -> Response:
        made = User.objects.get(pk=where.rpartition("/")[2])
        return Response({"id": str(made.pk)}, status=201, headers={"Location": where, "ETag": '"1"'})


class FailingView(ApiView):
    """Raises what the address names."""

    scope_group = None

    def get(self, _request: Request, what: str) -> Response:
        """One failure."""
        raise {"unforeseen": RuntimeError("secret words"), "gone": NotFound()}[what]


def page(request: HttpRequest) -> HttpResponse:
    """A page with one part."""
    return render_page(request, "problem/page.html", {"problem": PROBLEM}, parts=frozenset({"box"}))


def refused(_request: HttpRequest) -> HttpResponse:
    """A page that refuses."""
    raise NotAllowed("Only a lead may do this.")


PROBLEM: dict[str, Any] = {"title": "A title", "detail": "A detail", "code": "not_found", "status": 404}
urlpatterns = [
    path("api/v1/things", ThingView.as_view()),
    path("api/v1/told", SlowlyToldView.as_view()),
    path("api/v1/failing/<slug:what>", FailingView.as_view()),
    path("page/", page),
    path("refused/", refused),
    path("", include("portal.urls")),
]
handler404 = "portal.handlers.not_found"
handler500 = "portal.handlers.server_error"


def stored(name: str) -> int:
    """How many of that name there are."""
    return User.objects.filter(username=name).count()
