"""The second step of signing in, and one's own second factor: parse, call, present."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.actors import actor_of, of_user
from apps.accounts.models import User
from apps.accounts.second_factor import codes, factors, passkeys
from apps.accounts.selectors import oneself
from apps.accounts.sign_in import Half, complete_second_step, half_signed_in, needs_second_step
from apps.accounts.tries import Try
from apps.errors import DomainError
from apps.web.requests.perimeter import allowed
from portal.pages.account import qr
from portal.pages.account.proving import (
    SECRETS,
    ProvenView,
    after_removal,
    codes_page,
    owns,
    refused,
    say,
    unproven,
)
from portal.pages.account.second_factor_forms import AppForm, CodeForm, PasskeyAnswerForm, RecoveryForm
from portal.pages.account.session_views import HERE
from portal.pages.account.sign_in_views import onward
from portal.pages.parts.answers import done, with_status
from portal.pages.parts.htmx import redirect_after, render_page

WRONG_RECOVERY = "This is no recovery code of yours, or it was used already."
FACTORS: dict[str, tuple[str, type[Form]]] = {
    "code": ("app", CodeForm),
    "recovery": ("recovery code", RecoveryForm),
    "answer": ("passkey", PasskeyAnswerForm),
}
"""What may be shown after the password: the field that it comes in, what the session says of it, the form."""
TOO_LATE = "The second step comes within 5 minutes of the password: begin again."


class _HalfView(View):
    """For whose password was right in this browser; everybody else begins at the sign-in page."""

    half: Half

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Nobody, a step that is over, and a password that was changed meanwhile look alike."""
        half = half_signed_in(request, timezone.now())
        if half is None or not needs_second_step(half.user):
            if request.user.is_anonymous:
                messages.warning(request, TOO_LATE)
            return redirect_after(request, reverse("sign-in"))
        self.half = half
        return super().dispatch(request, *args, **kwargs)


@method_decorator([never_cache, SECRETS], name="dispatch")
class SecondStepView(_HalfView):
    """The step after the right password: a code from the app, or a recovery code."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form; who has no second factor yet is led to set one up."""
        if not factors.is_set(self.half.user):
            return redirect_after(request, reverse("second-step-set-up"))
        return self._page(request, {})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Check what was shown."""
        field = next((each for each in FACTORS if each in request.POST), "code")
        factor, kind = FACTORS[field]
        form, user, now = kind(request.POST), self.half.user, timezone.now()
        if not form.is_valid():
            return self._page(request, {field: form}, status=422)
        tried = Try.of_step(request, user.username, now, is_code=field == "code")
        wrong = partial(self._wrong, request)
        if status := refused(form, tried, wrong, too_many="Too many tries."):
            return self._page(request, {field: form}, status=status)
        complete_second_step(request, self.half, factor=factor, now=now)
        return tried.was_right(request, redirect_after(request, onward(request, self.half.way_on)))

    def _wrong(self, request: HttpRequest, form: Form) -> str:
        user, now, shown = self.half.user, timezone.now(), form.cleaned_data
        if "answer" in shown:
            passkeys.owner(user=user, answer=shown["answer"], session=request.session, now=now)
            return ""
        if "recovery" in shown:
            return "" if factors.accepts_recovery(user, shown["recovery"], now=now) else WRONG_RECOVERY
        return "" if factors.accepts(user, shown["code"], now=now) else factors.WRONG_CODE

    def _page(self, request: HttpRequest, forms: Mapping[str, Form], *, status: int = 200) -> HttpResponse:
        user, now = self.half.user, timezone.now()
        had = factors.standing(user)
        shown: dict[str, object] = {"has_app": had.app is not None, "failed": status != 200}
        shown |= {f"{field}_form": forms.get(field, kind()) for field, (_, kind) in FACTORS.items()}
        if had.passkeys and passkeys.are_possible():
            shown["asked"] = json.dumps(passkeys.begin_asking(request.session, user, now=now))
        page = render_page(request, "account/second_step.html", shown)
        return with_status(allowed(page, "publickey-credentials-get"), status)


@method_decorator([never_cache, SECRETS], name="dispatch")
class SetUpView(_HalfView):
    """For who must have a second factor and has none: nothing else opens before."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """What is asked, and why."""
        if factors.is_set(self.half.user):
            return redirect_after(request, reverse("second-step"))
        return render_page(request, "account/second_step_set_up.html", {"person": self.half.user})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Show a new secret; with the first code of the app, sign in and show the recovery codes."""
        user, now = self.half.user, timezone.now()
        if factors.is_set(user):
            return redirect_after(request, reverse("second-step"))
        if "code" not in request.POST:
            factors.begin_app(request.session, user, now=now)
            return _app_page(request, user, CodeForm())
        form = CodeForm(request.POST)
        if not form.is_valid():
            return _app_page(request, user, form, status=422)
        made, status = _confirmed(form, lambda: self._confirm(request, form))
        if made is None:
            return _app_page(request, user, form, status=status)
        complete_second_step(request, self.half, factor="app", now=now)
        return codes_page(request, user, made, onward(request, self.half.way_on))

    def _confirm(self, request: HttpRequest, form: Form) -> list[str]:
        user, code = self.half.user, form.cleaned_data["code"]
        actor = of_user(user, request)
        now, session = timezone.now(), request.session
        return factors.confirm_app(actor=actor, user=user, code=code, session=session, now=now, is_first=True)


@never_cache
@SECRETS
@require_POST
def set_up_app(request: HttpRequest) -> HttpResponse:
    """Show a new secret; with the first code of the app and the password, put it in force."""
    user, now = oneself(actor_of(request)), timezone.now()
    if "code" not in request.POST:
        factors.begin_app(request.session, user, now=now)
        return _app_page(request, user, AppForm())
    form = AppForm(request.POST)
    if not form.is_valid():
        return _app_page(request, user, form, status=422)
    if status := unproven(request, user, form, owns(user)):
        return _app_page(request, user, form, status=status)
    return _put_in_force(request, user, form)


def _put_in_force(request: HttpRequest, user: User, form: AppForm) -> HttpResponse:
    actor, session, now = actor_of(request), request.session, timezone.now()
    code = form.cleaned_data["code"]
    made, status = _confirmed(
        form, lambda: factors.confirm_app(actor=actor, user=user, code=code, session=session, now=now)
    )
    if made is None:
        return _app_page(request, user, form, status=status)
    if made:
        return codes_page(request, user, made, HERE)
    return done(request, "The new app is asked from now on. Your recovery codes stay as they are.", HERE)


class RemoveAppView(ProvenView):
    """The app goes."""

    def told(self, user: User, **of: Any) -> dict[str, str]:  # noqa: ARG002 others need them
        """What follows."""
        factors.require_removable(user)
        return {
            "title": "Remove the authenticator app?",
            "sentence": after_removal(user),
            "button": "Remove the app",
        }

    def act(self, request: HttpRequest, user: User, **_of: Any) -> HttpResponse:
        """Remove it."""
        here = request.session.session_key or ""
        factors.remove_app(actor=actor_of(request), user=user, here=here, now=timezone.now())
        return done(request, "The authenticator app is removed.", HERE)


class RecoveryCodesView(ProvenView):
    """New recovery codes in place of the old."""

    def told(self, user: User, **of: Any) -> dict[str, str]:  # noqa: ARG002 others need them
        """What follows."""
        return {
            "title": "Make new recovery codes?",
            "sentence": "You get ten new ones. Earlier ones no longer work.",
            "button": "Make new codes",
        }

    def act(self, request: HttpRequest, user: User, **_of: Any) -> HttpResponse:
        """Make them; they stand in this answer alone."""
        made = factors.renew_codes(actor=actor_of(request), user=user, now=timezone.now())
        return codes_page(request, user, made, HERE, words="Earlier codes no longer work.")


def _confirmed(form: Form, confirm: Callable[[], list[str]]) -> tuple[list[str] | None, int]:
    """New recovery codes, maybe none; None where the first code was refused, with the words at the form."""
    try:
        return confirm(), 200
    except DomainError as error:
        return None, say(form, error)


def _app_page(request: HttpRequest, user: User, form: Form, *, status: int = 200) -> HttpResponse:
    """The secret that waits; only ever in the answer to a POST, which is not compressed."""
    secret = factors.pending_of(request.session, user, now=timezone.now())
    shown: dict[str, object] = {"form": form, "failed": status != 200}
    if secret is not None:
        address = codes.app_address(secret, issuer=_place(), account=user.username)
        shown |= {"picture": qr.picture(address), "secret": codes.typed_secret(secret), "address": address}
    return with_status(render_page(request, "account/app.html", shown), status)


def _place() -> str:
    """What apps call this installation: a person may have accounts at several."""
    host = settings.CONFIG.url.partition("://")[2]
    return f"Allotment {host}"
