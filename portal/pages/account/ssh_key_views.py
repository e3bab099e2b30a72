"""Adding and removing one's SSH keys: parse, call, present."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from apps.accounts.actors import actor_of
from apps.accounts.models import User
from apps.accounts.selectors import ssh_key_for
from apps.accounts.ssh_keys import keeping
from apps.errors import DomainError
from portal.pages.account.proving import ProvenView, say
from portal.pages.account.session_views import HERE, ways_page
from portal.pages.account.ssh_key_forms import SshKeyForm
from portal.pages.parts.answers import done


@method_decorator([never_cache, sensitive_post_parameters("text")], name="dispatch")
class NewSshKeyView(View):
    """A new SSH key, on the page of one's ways in."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page with its form open."""
        return ways_page(request, SshKeyForm(), is_open=True)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep the key."""
        form, now = SshKeyForm(request.POST), timezone.now()
        if not form.is_valid():
            return ways_page(request, form, is_open=True, status=422)
        try:
            key = keeping.add_ssh_key(actor=actor_of(request), **form.cleaned_data, now=now)
        except DomainError as error:
            return ways_page(request, form, is_open=True, status=say(form, error))
        return done(request, f"The SSH key {key.name} is added.", HERE)


class RemoveSshKeyView(ProvenView):
    """One SSH key goes."""

    def is_asked(self, user: User) -> bool:  # noqa: ARG002 others need it
        """Whoever removes a key opens nothing by it."""
        return False

    def told(self, user: User, **of: Any) -> dict[str, str]:  # noqa: ARG002 others need it
        """Which, and what follows."""
        key = ssh_key_for(actor_of(self.request), of["ssh_key"])
        return {
            "title": f"Remove the SSH key {key.name}?",
            "sentence": f"Nobody comes in with it any more: {key.fingerprint}.",
            "button": "Remove the SSH key",
        }

    def act(self, request: HttpRequest, user: User, **of: Any) -> HttpResponse:  # noqa: ARG002 others need it
        """Remove it."""
        actor = actor_of(request)
        keeping.remove_ssh_key(actor=actor, key=ssh_key_for(actor, of["ssh_key"]), now=timezone.now())
        return done(request, "The SSH key is removed.", HERE)
