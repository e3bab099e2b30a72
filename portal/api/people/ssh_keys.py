"""REST for one's own SSH keys, and for what `ssh` has to know."""

from uuid import UUID

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import selectors
from apps.accounts.specs import ScopeGroup
from apps.accounts.ssh_keys import keeping
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.people.ssh_keys_bodies import (
    SshKeyBody,
    SshKeyWishSerializer,
    SshSetupBody,
    ssh_key_body,
    ssh_setup_body,
)


class SshKeysView(ApiView):
    """One's own SSH keys."""

    scope_group = ScopeGroup.TOKENS
    lists = True
    sorts = ("-created_at",)
    write_parameters = ()

    @named("ssh_keys_list")
    @pages(SshKeyBody)
    def get(self, request: Request) -> Response:
        """Newest first; with a token limited to some tenants none."""
        return paginate(request, selectors.ssh_keys_for(self.actor), ssh_key_body)

    @named("ssh_keys_create")
    @takes(SshKeyWishSerializer)
    @answers(201, SshKeyBody, location=True)
    @refuses("wrong_phase", "already_exists")
    def post(self, request: Request) -> Response:
        """Add one; not with a token limited to some scopes or tenants. A key opens one account alone."""
        return idempotent(request, lambda: self._add(request))

    def _add(self, request: Request) -> Response:
        asked = SshKeyWishSerializer.checked(request.data)
        key = keeping.add_ssh_key(actor=self.actor, **asked, now=timezone.now())
        return made(ssh_key_body(key), f"/api/v1/me/ssh-keys/{key.pk}")


class SshKeyView(ApiView):
    """One of one's own SSH keys."""

    scope_group = ScopeGroup.TOKENS
    write_parameters = ()

    @named("ssh_keys_retrieve")
    @answers(200, SshKeyBody)
    def get(self, _request: Request, ssh_key: UUID) -> Response:
        """The key, by id."""
        return Response(ssh_key_body(selectors.ssh_key_for(self.actor, ssh_key)))

    @named("ssh_keys_destroy")
    @answers(204)
    def delete(self, _request: Request, ssh_key: UUID) -> Response:
        """Remove it: nobody comes in with it any more."""
        key = selectors.ssh_key_for(self.actor, ssh_key)
        keeping.remove_ssh_key(actor=self.actor, key=key, now=timezone.now())
        return Response(status=204)


class SshSetupView(ApiView):
    """How a machine's `ssh` gets here; the same for everybody."""

    scope_group = ScopeGroup.TOKENS

    @named("ssh_setup_retrieve")
    @answers(200, SshSetupBody)
    def get(self, _request: Request) -> Response:
        """What goes into `~/.ssh` once; each workload is then `ssh WORKLOAD.TENANT.allotment`."""
        return Response(ssh_setup_body())
