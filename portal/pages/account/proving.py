"""What every page of a second factor shares: the proof that it is the owner, refusals, new recovery codes."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from apps.accounts.actors import actor_of
from apps.accounts.models import User
from apps.accounts.second_factor import codes, factors
from apps.accounts.selectors import oneself
from apps.accounts.tries import Try
from apps.errors import DomainError, Invalid
from portal.pages.account.second_factor_forms import ProofForm
from portal.pages.parts.answers import with_status
from portal.pages.parts.htmx import render_page

SECRETS = sensitive_post_parameters("password", "code", "recovery", "answer")
WRONG_PROOF = "That is not right."
TOO_MANY = "Too many wrong answers by somebody signed in to this account; nothing was changed."
WRONG_PASSWORD = "The password is wrong."  # noqa: S105 - words for people


@method_decorator([never_cache, SECRETS], name="dispatch")
class ProvenView(View):
    """What a stolen session must not do: asks for the password or a code first."""

    def get(self, request: HttpRequest, **of: Any) -> HttpResponse:
        """The question."""
        user = oneself(actor_of(request))
        return self._page(request, ProofForm() if self.is_asked(user) else Form(), self.told(user, **of))

    def post(self, request: HttpRequest, **of: Any) -> HttpResponse:
        """Done, once it is proven."""
        user, form = oneself(actor_of(request)), ProofForm(request.POST)
        told = self.told(user, **of)
        if not self.is_asked(user):
            return self.act(request, user, **of)
        if not form.is_valid():
            return self._page(request, form, told, status=422)

        def wrong(form: Form) -> str:
            return "" if factors.proves(user, **form.cleaned_data, now=timezone.now()) else WRONG_PROOF

        if status := unproven(request, user, form, wrong):
            return self._page(request, form, told, status=status)
        return self.act(request, user, **of)

    def is_asked(self, user: User) -> bool:  # noqa: ARG002 others need it
        """Whether there is something to ask for."""
        return True

    def told(self, user: User, **of: Any) -> dict[str, str]:
        """Title, sentence and button of the question; raises NotFound for what is not theirs."""
        raise NotImplementedError

    def act(self, request: HttpRequest, user: User, **of: Any) -> HttpResponse:
        """What is done."""
        raise NotImplementedError

    def _page(
        self, request: HttpRequest, form: Form, told: dict[str, str], *, status: int = 200
    ) -> HttpResponse:
        shown = {"kind": "danger", **told, "form": form, "failed": status != 200}
        return with_status(render_page(request, "account/prove.html", shown), status)


def after_removal(user: User) -> str:
    """What opens the account once one factor is gone."""
    if factors.standing(user).count > 1:
        return "Your other second factors are asked for as before. Every other browser is signed out."
    return (
        "Your password alone opens your account then. Recovery codes go too, and every other browser is "
        "signed out."
    )


def owns(user: User) -> Callable[[Form], str]:
    """The check of a form with the person's password."""
    return lambda form: "" if user.check_password(form.cleaned_data["password"]) else WRONG_PASSWORD


def unproven(request: HttpRequest, user: User, form: Form, wrong: Callable[[Form], str]) -> int:
    """As `refused`, on a page of somebody who is signed in; what is right takes nothing from the tries."""
    tried = Try.of_proof(request, user.username, timezone.now())
    status = refused(form, tried, wrong)
    if not status:
        tried.give_back()
    return status


def refused(form: Form, tried: Try, wrong: Callable[[Form], str], *, too_many: str = TOO_MANY) -> int:
    """The status of a refusal, whose words stand at the form then; 0 when what was typed is right."""
    if full := tried.spend():
        form.add_error(None, f"{too_many} Wait {full.seconds} seconds.")
        return 429
    try:
        words = wrong(form)
    except DomainError as error:
        return say(form, error)
    if words:
        form.add_error(None, words)
    return 422 if words else 0


def say(form: Form, error: DomainError) -> int:
    """A refusal's words at the form, beside the field if it has one; answers the status."""
    if isinstance(error, Invalid):
        for problem in error.problems:
            name = problem.pointer.strip("/")
            is_shown = name in {field.name for field in form.visible_fields()}
            form.add_error(name if is_shown else None, problem.detail)
    else:
        form.add_error(None, f"{error.detail} {error.hint}")
    return error.status


def codes_page(
    request: HttpRequest, user: User, made: list[str], onward: str, *, words: str = "The second factor is on."
) -> HttpResponse:
    """New recovery codes, shown once; a POST's answer, which is not compressed."""
    text = codes.as_file(made, account=user.username, place=settings.CONFIG.url)
    shown = {
        "codes": made,
        "file": f"data:text/plain;charset=utf-8,{quote(text)}",
        "onward": onward,
        "words": words,
    }
    return render_page(request, "account/recovery_codes.html", shown)
