"""REST of advice: which offer suits a need. Contract: docs/api.md."""

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.workloads.advice.rules import wishes
from apps.workloads.advice.selectors import advising
from apps.workloads.specs import Kind
from portal.api.base import references
from portal.api.base.views import ApiView
from portal.api.declared.declaring import answers, named, takes
from portal.api.workloads.advice_bodies import AdviceBody, AdviceSerializer, advice_body


class AdviceView(ApiView):
    """`advice`: asks, and stores nothing."""

    scope_group = "workloads"
    asks_only = ("POST",)
    write_parameters = ()
    keyed = False

    @named("advice")
    @takes(AdviceSerializer)
    @answers(200, AdviceBody)
    def post(self, request: Request) -> Response:
        """Which offers suit a need, the best first, and why the others do not. Stores nothing.

        Say how much GPU memory each needs, or which model is used how. What starts now is not kept free.
        """
        asked, now = AdviceSerializer.checked(request.data), timezone.now()
        tenant, kind = references.tenant_in(self.actor, asked["tenant"]), Kind(asked["kind"])
        need = wishes.need_of(AdviceSerializer.wish(asked))
        found = advising.advice_for(advising.Asked(self.actor, tenant, kind, need, now))
        body = advice_body(found, tenant=tenant.slug, kind=kind, at=now, currency=settings.CONFIG.currency)
        return Response(body)
