"""REST of drift: which objects differ from what we apply, who wrote that, and their repair."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.policies import require_platform
from apps.accounts.specs import ScopeGroup
from apps.cluster.mirror.selectors.inventory import cluster_for
from apps.cluster.models import Drift
from apps.cluster.reconciling.selectors import drifts
from apps.cluster.reconciling.selectors.drifts import Look
from apps.cluster.reconciling.services import repairs
from apps.cluster.watching.services import drift_checks
from apps.tenants.selectors import tenant_for
from apps.words import Word
from portal.api.base.documents import VerbView, acts
from portal.api.base.references import TENANT, asked_tenant
from portal.api.base.serializers import ReasonSerializer
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, named, pages, takes
from portal.api.declared.queries import OneOf, Texts
from portal.api.fleet.drift_bodies import (
    DriftBody,
    DriftCheckBody,
    TenantRepairBody,
    check_body,
    drift_body,
)


class Which(Word):
    """Which lines of the book."""

    OPEN = "open", "What differs now"
    HEALED = "healed", "What was put back"
    ALL = "all", "Both"


CLUSTER = Texts("cluster", "Only in these clusters, by slug.")
KIND = Texts("kind", "Only objects of these kinds, such as NetworkPolicy.")
STATE = OneOf("state", "open: what differs now. healed: what was put back.", tuple(Which), Which.OPEN)


class DriftsView(ApiView):
    """Objects that differ from what we apply; empty for all but platform engineers and auditors."""

    scope_group = ScopeGroup.CLUSTERS
    lists = True
    sorts = ("-found_at", "kind")
    parameters = (CLUSTER, TENANT, KIND, STATE)

    @pages(DriftBody)
    def get(self, request: Request) -> Response:
        """Newest first. It is the workers' comparison that is shown: no cluster is asked."""
        tenant, state = asked_tenant(self, request), STATE.of(request)
        asked = {
            "cluster__slug__in": CLUSTER.of(request),
            "kind__in": KIND.of(request),
            "tenant": tenant and tenant.slug,
            "healed_at__isnull": None if state is Which.ALL else state is Which.OPEN,
        }
        chosen = {name: value for name, value in asked.items() if value is not None}
        return paginate(request, drifts.drifts_for(self.actor).filter(**chosen), drift_body)


class DriftView(ApiView):
    """One object that differs, or did."""

    scope_group = ScopeGroup.CLUSTERS

    @answers(200, DriftBody)
    def get(self, _request: Request, key: str) -> Response:
        """By id: its fields, ours and theirs, and who wrote them when."""
        return Response(drift_body(drifts.drift_for(self.actor, key)))


@acts(
    DriftBody,
    "wrong_phase",
    post="Put it back now, however often that was done of late. `dry_run=true` tells what changes.",
)
class DriftRepairView(VerbView[Drift]):
    """The repair of one object."""

    scope_group = ScopeGroup.CLUSTERS
    status = 202
    find = staticmethod(drifts.drift_for)
    body = staticmethod(drift_body)

    def require(self, row: Drift) -> None:  # noqa: ARG002 - whoever may, may all
        """As the service."""
        require_platform(self.actor)

    def act(self, row: Drift, asked: Mapping[str, Any]) -> Drift:
        """Repair it."""
        return repairs.repair(actor=self.actor, drift=row, reason=asked["reason"], now=timezone.now())


class TenantRepairView(ApiView):
    """The repair of all that differs of a tenant."""

    scope_group = ScopeGroup.CLUSTERS

    @takes(ReasonSerializer)
    @answers(202, TenantRepairBody)
    def post(self, request: Request, key: str) -> Response:
        """Put it back now; `dry_run=true` tells what that is."""

        def repair() -> TenantRepairBody:
            tenant = tenant_for(self.actor, key)
            require_platform(self.actor)
            reason = ReasonSerializer.checked(request.data)["reason"]
            rows = repairs.repair_tenant(
                actor=self.actor, tenant=tenant.slug, reason=reason, now=timezone.now()
            )
            return {
                "object": "drift_repair",
                "tenant": tenant.slug,
                "items": [drift_body(row) for row in rows],
            }

        return idempotent(request, lambda: written(request, repair, lambda body: Response(body, status=202)))


class DriftChecksView(ApiView):
    """When each cluster was last compared."""

    scope_group = ScopeGroup.CLUSTERS

    @named("drift_checks_list")
    @pages(DriftCheckBody)
    def get(self, _request: Request) -> Response:
        """By cluster, all on one page; empty for all but platform engineers and auditors."""
        return Response({"items": [check_body(each) for each in drifts.looks_for(self.actor)], "next": None})


class CheckDriftView(ApiView):
    """The comparison of a whole cluster."""

    scope_group = ScopeGroup.CLUSTERS

    @named("cluster_check_drift")
    @answers(202, DriftCheckBody)
    def post(self, request: Request, cluster: str) -> Response:
        """Ask for one; workers make it. `GET drift-checks` tells how far it is."""

        def ask() -> Look:
            row = cluster_for(self.actor, cluster)
            check = drift_checks.ask(actor=self.actor, cluster=row, now=timezone.now())
            return drifts.look_at(
                row, check, drifts.open_of(drifts.drifts_for(self.actor)).filter(cluster=row).count()
            )

        return idempotent(
            request, lambda: written(request, ask, lambda look: Response(check_body(look), status=202))
        )
