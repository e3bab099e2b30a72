"""The page of a workload's secrets: parse, call, present. What is in them is never shown."""

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from apps.accounts.actors import actor_of
from apps.workloads import policies
from apps.workloads.changes.services import writing
from apps.workloads.models import Workload
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.rules.wishes import LONGEST_NAME, LONGEST_VALUE
from apps.workloads.secrets.selectors import sealed
from apps.workloads.secrets.services import keeping
from apps.workloads.selectors.reading import workload_for
from apps.workloads.specs import OpenTo, Phase
from portal.pages.parts import confirm, form_pages
from portal.pages.parts.answers import done, require_form
from portal.pages.parts.forms import PLAIN, OnceForm
from portal.pages.team.workloads import workload_detail


class SecretForm(OnceForm):
    """A secret. Its value is never shown again, not even after a refusal."""

    name = forms.CharField(
        max_length=LONGEST_NAME, widget=forms.TextInput(attrs=PLAIN), help_text="Such as HF_TOKEN."
    )
    into = forms.ChoiceField(label="As", choices=Into.choices())
    value = forms.CharField(
        max_length=LONGEST_VALUE,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Kept sealed and shown to nobody. Several lines: over REST.",
    )

    def wish(self) -> SecretWish:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        return SecretWish(typed["name"], Into(typed["into"]), typed["value"])


@require_form
def secrets_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Which there are, who set them and when; a POST sets one."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    form = SecretForm(request.POST or None)
    if request.method == "POST":
        writing.require_operate(actor, row)

    def make() -> str:
        keeping.set_secret(actor=actor, workload=row, wish=form.wish(), now=timezone.now())
        return url(row)

    def shown() -> dict[str, Any]:
        return page(row) | {"may": policies.can_operate(actor, row) and _takes_more(row)}

    return form_pages.form_page(request, "team/workloads/secrets.html", shown, form=form, make=make)


@require_form
def remove_secret(request: HttpRequest, tenant: str, workload: UUID, secret: str) -> HttpResponse:
    """What removing it means; a POST removes it."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    writing.require_operate(actor, row)
    kept = sealed.secret_of(row, secret)
    if request.method == "POST":
        keeping.remove_secret(actor=actor, workload=row, name=secret, now=timezone.now())
        return done(request, f"{secret} is removed.", url(row))
    means = "Its value is forgotten and cannot be shown again. "
    stays = "A program that runs keeps a variable until it ends; a file is emptied within about a minute."
    question = confirm.Question(f"Remove {kept.name}?", (means + stays,), "Remove", url(row))
    return confirm.page(request, question)


def url(row: Workload) -> str:
    """Where the page is."""
    return reverse("workload-secrets", args=[row.tenant.slug, row.pk])


def page(row: Workload) -> dict[str, Any]:
    """What the page shows, without the form."""
    has_run = Phase(row.phase) in (Phase.STARTING, Phase.RUNNING)
    found = list(sealed.secrets_of(row))
    named = {tuple(pair) for pair in row.run_secrets}
    return workload_detail.frame(row) | {
        "secrets": [(each, has_run and (each.name, each.into) not in named) for each in found],
        "is_shared": row.open_to == OpenTo.TEAM,
        "live_topics": [],
    }


def _takes_more(row: Workload) -> bool:
    return row.deleting_at is None and not Phase(row.phase).is_final
