"""REST of terminals in workloads: parse, call, present. Contract: docs/api.md; the WebSocket: docs/ssh.md."""

from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actors import credential_of
from apps.workloads.opening.selectors import access
from apps.workloads.opening.services import shells
from portal.api.base.serializers import StrictSerializer
from portal.api.declared.declaring import answers, refuses
from portal.api.workloads.shapes import TerminalBody
from portal.api.workloads.views import BY_SLUG, WorkloadView


class TerminalView(WorkloadView):
    """`+terminal`: a shell in it. A secret is answered, so nothing of it is kept for a repeat."""

    write_parameters = (BY_SLUG,)
    keyed = False

    @answers(200, TerminalBody)
    @refuses("wrong_phase")
    def post(self, request: Request, pk: str) -> Response:
        """A code that opens one terminal in it, within 30 seconds.

        A program brings it in the first message of a WebSocket to `url`. The shell runs as the person's own
        account in the cluster and ends with the token that asked. A code that a sign-in asked for is for the
        portal's own page. Service accounts are refused.
        """
        row = self.found(pk)
        access.require_open(self.actor, row)
        StrictSerializer.checked(request.data)
        made = shells.offer_terminal(
            actor=self.actor, credential=credential_of(request), workload=row, now=self.now
        )
        return Response({"url": made.url, "code": made.code, "expires_at": made.expires_at})
