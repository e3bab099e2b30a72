"""The pages for signing in and out and for one's own API tokens. They hold no rules."""

from typing import Any
from uuid import UUID

from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from apps.accounts import passwords, people, selectors, services
from apps.accounts.actors import actor_of
from apps.accounts.demo import demo_people, demo_person
from apps.accounts.models import User
from apps.accounts.oidc import flows
from apps.accounts.second_factor import passkeys
from apps.accounts.sign_in import (
    PASSWORD,
    begin_second_step,
    needs_second_step,
    sign_in,
    sign_in_locally,
    sign_out,
    way_on,
)
from apps.accounts.tries import Try, know_device
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.errors import DomainError, Invalid
from apps.web.problems import answers
from apps.web.problems.refusals import InvalidToken
from apps.web.requests.perimeter import public
from portal.pages.account import demo_walk, landing
from portal.pages.account.sign_in_forms import PasswordForm, SignInForm, TokenForm
from portal.pages.parts.answers import with_status
from portal.pages.parts.htmx import redirect_after, render_page

WRONG = "The username or the password is wrong."


@method_decorator([never_cache, sensitive_post_parameters("password")], name="dispatch")
class SignInView(View):
    """The way in: a password, or in the demo one button per person."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form, or onward for who is signed in."""
        if request.user.is_authenticated:
            return redirect_after(request, onward(request, way_on(request)))
        return self._page(request, SignInForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Check the password; every wrong combination gets the same words."""
        form, now = SignInForm(request.POST), timezone.now()
        if not form.is_valid():
            return self._page(request, form, status=422)
        tried = Try.of_account(request, form.cleaned_data["username"], now)
        if full := tried.spend():
            return self._must_wait(request, form, full.seconds)
        user = auth.authenticate(request, **form.cleaned_data)
        if not isinstance(user, User) or not passwords.is_open_to(user.username):
            return self._refused(request, form, WRONG, status=422)
        if needs_second_step(user):
            # Neither counted nor known as the account's browser yet: that comes with the rest.
            tried.give_back()
            begin_second_step(request, user, way_on=way_on(request), now=now)
            return redirect_after(request, reverse("second-step"))
        sign_in_locally(request, user, by=(PASSWORD,), now=now)
        return tried.was_right(request, redirect_after(request, onward(request, way_on(request))))

    def _must_wait(self, request: HttpRequest, form: SignInForm, seconds: int) -> HttpResponse:
        response = self._refused(request, form, f"Too many tries. Wait {seconds} seconds.", status=429)
        response["Retry-After"] = str(seconds)
        return response

    def _refused(self, request: HttpRequest, form: SignInForm, words: str, *, status: int) -> HttpResponse:
        form.add_error(None, words)
        return self._page(request, form, status=status)

    def _page(self, request: HttpRequest, form: SignInForm, *, status: int = 200) -> HttpResponse:
        return sign_in_page(request, {"form": form, "failed": status != 200}, status=status)


def sign_in_page(request: HttpRequest, more: dict[str, object], *, status: int = 200) -> HttpResponse:
    """Every way in that there is here; `more` says what went wrong."""
    shown = {
        "form": SignInForm(),
        "next": way_on(request),
        "people": (people := demo_people()),
        "steps": demo_walk.STEPS,
        "gpus": sum(map(inventory.gpu_count, Cluster.objects.all())) if people else 0,
        "providers": flows.providers(),
        "is_password_usual": passwords.is_for_everybody(),
        "has_passkeys": passkeys.are_possible(),
        **more,
    }
    return render(request, "account/sign_in.html", shown, status=status)


@require_POST
def demo_sign_in(request: HttpRequest) -> HttpResponse:
    """One of the demo's people, without a password; outside the demo there is nothing here."""
    sign_in(request, demo_person(request.POST.get("person", "")), way="demo", now=timezone.now())
    return redirect_after(request, onward(request, way_on(request)))


def onward(request: HttpRequest, wanted: str) -> str:
    """Where they wanted to go; who wanted nothing in particular lands where their role begins."""
    if wanted != reverse("home"):
        return wanted
    try:
        return landing.url(actor_of(request))
    except InvalidToken:  # a session that is over: the page itself asks to sign in anew
        return wanted


@require_POST
def sign_out_view(request: HttpRequest) -> HttpResponse:
    """The way out."""
    sign_out(request, timezone.now())
    return redirect_after(request, "/sign-in/")


@method_decorator([never_cache, sensitive_post_parameters("password", "again")], name="dispatch")
class InviteView(View):
    """The one-time link: choosing a password, after which one signs in with it."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """An invalid link counts against the address that tried it."""
        tried = Try.of_link(request, timezone.now())
        if full := tried.spend():
            full.require()
        response = super().dispatch(request, *args, **kwargs)
        return tried.was_right(request, response)

    def get(self, request: HttpRequest, text: str) -> HttpResponse:
        """The form, for a link that still works."""
        return self._page(request, text, PasswordForm())

    def post(self, request: HttpRequest, text: str) -> HttpResponse:
        """Set the password; the link is used up."""
        form, now = PasswordForm(request.POST), timezone.now()
        if form.is_valid():
            try:
                person = people.redeem(text=text, password=form.cleaned_data["password"], now=now)
            except Invalid as error:
                form.add_error("password", " ".join(problem.detail for problem in error.problems))
            else:
                messages.success(request, "Your password is set: sign in with it.")
                # The owner of the link gets to the form even while others fill the account's limit.
                return know_device(request, redirect_after(request, "/sign-in/"), person.username)
        return self._page(request, text, form, status=422)

    def _page(
        self, request: HttpRequest, text: str, form: PasswordForm, *, status: int = 200
    ) -> HttpResponse:
        person = people.invited(text, timezone.now()).user
        shown = {"form": form, "person": person, "failed": status != 200}
        return render(request, "account/invite.html", shown, status=status)


@method_decorator(never_cache, name="dispatch")
class TokensView(View):
    """One's own tokens, and making one; its text is shown in the answer to the form and never again."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The live tokens and the form."""
        return self._page(request, {"form": TokenForm()})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make a token and show its text once."""
        form, now, actor = TokenForm(request.POST), timezone.now(), actor_of(request)
        if not form.is_valid():
            return self._page(request, {"form": form, "failed": True}, status=422)
        try:
            token, text = services.make_token(actor=actor, wish=form.wish(now), now=now)
        except DomainError as error:
            refusal = answers.problem_for(error, request)
            return self._page(
                request, {"form": form, "refusal": refusal, "failed": True}, status=error.status
            )
        return self._page(request, {"form": TokenForm(), "made": token, "text": text})

    def _page(self, request: HttpRequest, shown: dict[str, object], *, status: int = 200) -> HttpResponse:
        now, tokens = timezone.now(), selectors.tokens_for(actor_of(request)).order_by("-created_at")
        shown = {"tokens": tokens, "now": now, "address": public(reverse("api-me")), **shown}
        return with_status(render_page(request, "account/tokens.html", shown), status)


@require_POST
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """End one of one's own tokens."""
    actor = actor_of(request)
    token = selectors.token_for(actor, token_id)
    services.revoke_token(actor=actor, token=token, now=timezone.now())
    messages.success(request, f"{token.name} ({token.prefix}…) no longer works.")
    return redirect_after(request, "/me/tokens/")
