"""REST for the tokens of a service: made, rotated, revoked. A text is in the answer that makes it alone."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.ranges import KEEP_OLD_SECONDS
from apps.web.requests.idempotency import idempotent
from apps.web.shapes.bodies import Id
from apps.workloads.opening.selectors import service_access
from apps.workloads.opening.services import service_tokens
from apps.workloads.opening.services.service_tokens import Made
from apps.workloads.selectors import reading
from apps.workloads.token_models import ServiceToken
from portal.api.base.serializers import StrictSerializer
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.workloads.views import WorkloadView
from portal.api.workloads.workloads_bodies import printable


class NewServiceToken(StrictSerializer):
    """What a POST takes."""

    name = serializers.CharField(max_length=60, validators=[printable])


class Rotation(StrictSerializer):
    """What a rotation takes."""

    keep_old_seconds = serializers.IntegerField(required=False, default=0, **KEEP_OLD_SECONDS.bounds)


class ServiceTokenBody(TypedDict):
    """A token of a service without its text."""

    object: Literal["service-token"]
    id: Id
    workload: str
    name: str
    prefix: Annotated[str, "How its text begins."]
    made_by: Annotated[str, "Whose access it hangs on: it ends with that."]
    created_at: datetime
    rotated_at: datetime | None
    old_ends_at: Annotated[datetime | None, "Until then the text of before opens too."]
    last_used_at: datetime | None


class NewServiceTokenBody(ServiceTokenBody):
    """A token of a service with its text."""

    token: Annotated[str, "Shown in this answer only; kept as SHA-256."]


class ServiceTokensView(WorkloadView):
    """The tokens of a service."""

    write_parameters = ()

    @named("service_tokens_list")
    @pages(ServiceTokenBody)
    def get(self, request: Request, pk: str) -> Response:  # noqa: ARG002 - Django's signature
        """By name, all on one page, without their texts."""
        row = reading.workload_for(self.actor, pk)
        return Response({"items": [_body(each) for each in service_access.tokens_of(row)], "next": None})

    @named("service_tokens_create")
    @takes(NewServiceToken)
    @answers(201, NewServiceTokenBody, location=True)
    @refuses("wrong_phase", "already_exists")
    def post(self, request: Request, pk: str) -> Response:
        """Make one for a program; its text is in this answer only.

        A program sends it as `Authorization: Bearer` to the service's own address. It ends with the access of
        whoever made it.
        """
        return idempotent(request, lambda: self._make(request, pk), secrets=("token",))

    def _make(self, request: Request, pk: str) -> Response:
        row = reading.workload_for(self.actor, pk)
        service_access.require_tokens(self.actor, row)
        name = NewServiceToken.checked(request.data)["name"]
        found = service_tokens.make_token(actor=self.actor, workload=row, name=name, now=self.now)
        return made(_told(found), f"/api/v1/workloads/{row.pk}/tokens/{found.token.pk}")


class ServiceTokenView(WorkloadView):
    """One token of a service."""

    @named("service_tokens_retrieve")
    @answers(200, ServiceTokenBody)
    def get(self, request: Request, pk: str, service_token: UUID) -> Response:  # noqa: ARG002 - Django's signature
        """The token, without its text."""
        row = reading.workload_for(self.actor, pk)
        return Response(_body(service_access.token_of(row, service_token)))

    @named("service_tokens_destroy")
    @answers(204)
    def delete(self, request: Request, pk: str, service_token: UUID) -> Response:
        """Revoke it: what goes through the door with it ends within a second."""

        def revoke() -> None:
            row = reading.workload_for(self.actor, pk)
            service_tokens.revoke_token(actor=self.actor, workload=row, token=service_token, now=self.now)

        return written(request, revoke, lambda _: Response(status=204))


class RotateServiceToken(WorkloadView):
    """`+rotate`: another text."""

    keyed = False
    write_parameters = ()

    @named("service_tokens_rotate")
    @takes(Rotation)
    @answers(200, NewServiceTokenBody)
    @refuses("wrong_phase")
    def post(self, request: Request, pk: str, service_token: UUID) -> Response:
        """Another text for it, in this answer only; the one of before may open for a while more."""
        row = reading.workload_for(self.actor, pk)
        service_access.require_tokens(self.actor, row)
        kept = Rotation.checked(request.data)["keep_old_seconds"]
        found = service_tokens.rotate_token(
            actor=self.actor, workload=row, token=service_token, keep_old_seconds=kept, now=self.now
        )
        return Response(_told(found))


def _told(found: Made) -> NewServiceTokenBody:
    return {**_body(found.token), "token": found.text}


def _body(token: ServiceToken) -> ServiceTokenBody:
    return {
        "object": "service-token",
        "id": str(token.pk),
        "workload": str(token.workload_id),
        "name": token.name,
        "prefix": token.prefix,
        "made_by": token.made_by.username,
        "created_at": token.created_at,
        "rotated_at": token.rotated_at,
        "old_ends_at": token.old_ends_at,
        "last_used_at": token.last_used_at,
    }
