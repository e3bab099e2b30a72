"""REST for the secrets of a workload: set, replaced, removed by name. What is in them is never told."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from apps.workloads.models import Workload, WorkloadSecret
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.selectors import sealed
from apps.workloads.secrets.services import keeping
from apps.workloads.selectors import reading
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.workloads.views import WorkloadView
from portal.api.workloads.workloads_bodies import SecretSerializer


class SecretBody(TypedDict):
    """A secret of a workload, without its value."""

    object: Literal["secret"]
    name: str
    into: Into
    path: Annotated[str | None, "Of a file: where it is in the container."]
    workload: str
    set_by: str
    set_at: datetime
    is_named: Annotated[bool, "Whether the present run has it; else it counts from the next start."]


class SecretsView(WorkloadView):
    """The secrets of a workload."""

    @named("secrets_list")
    @pages(SecretBody)
    def get(self, request: Request, pk: str) -> Response:  # noqa: ARG002 - Django's signature
        """By name, all on one page, without their values."""
        row = reading.workload_for(self.actor, pk)
        return Response({"items": [_body(row, each) for each in sealed.secrets_of(row)], "next": None})


class SecretView(WorkloadView):
    """One secret of a workload."""

    @named("secrets_retrieve")
    @answers(200, SecretBody)
    def get(self, request: Request, pk: str, secret: str) -> Response:  # noqa: ARG002 - Django's signature
        """By its name, without its value."""
        row = reading.workload_for(self.actor, pk)
        return Response(_body(row, sealed.secret_of(row, secret)))

    @named("secrets_update")
    @takes(SecretSerializer)
    @answers(200, SecretBody)
    @refuses("wrong_phase")
    def put(self, request: Request, pk: str, secret: str) -> Response:
        """Set it, in the place of what was set before.

        A variable counts from the next start; a file that the run has changes within about a minute. No
        If-Match.
        """

        def write() -> WorkloadSecret:
            row = reading.workload_for(self.actor, pk)
            self.require(row)
            asked = SecretSerializer.checked(request.data)
            wish = SecretWish(secret, Into(asked["into"]), asked["value"])
            return keeping.set_secret(actor=self.actor, workload=row, wish=wish, now=self.now)

        return written(request, write, lambda kept: Response(_body(kept.workload, kept)))

    @named("secrets_destroy")
    @answers(204)
    def delete(self, request: Request, pk: str, secret: str) -> Response:
        """Forget it. A variable stays in the program that has it until that ends."""

        def remove() -> None:
            row = reading.workload_for(self.actor, pk)
            keeping.remove_secret(actor=self.actor, workload=row, name=secret, now=self.now)

        return written(request, remove, lambda _: Response(status=204))


def _body(row: Workload, secret: WorkloadSecret) -> SecretBody:
    key = secret.key
    return {
        "object": "secret",
        "name": secret.name,
        "into": key.into,
        "path": key.path if key.into is Into.FILE else None,
        "workload": str(row.pk),
        "set_by": secret.set_by,
        "set_at": secret.set_at,
        "is_named": [key.name, str(key.into)] in row.run_secrets,
    }
