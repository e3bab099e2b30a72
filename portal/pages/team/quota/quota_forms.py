"""The forms of a team's quota page and of quota requests. The rules are in the services."""

from collections.abc import Sequence
from typing import Any

from django import forms

from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.allowances.services.moving import Move
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.requests.services.deciding import RequestWish
from apps.quotas.specs import BudgetUnit, RequestKind
from apps.ranges import GRANT_HOURS, MORE_DEVICES
from apps.tenants.models import Department, Tenant
from portal.pages.parts.forms import SHORT, MomentField, OnceForm

HOUR = 3600


class AskForm(OnceForm):
    """How many more devices of which offer, for how long and why."""

    offer = forms.ChoiceField(widget=forms.Select(attrs=SHORT))
    kind = forms.ChoiceField(
        label="What",
        choices=[("guaranteed", "Guaranteed to us"), ("borrow", "To borrow while others leave it idle")],
        widget=forms.Select(attrs=SHORT),
    )
    count = forms.IntegerField(
        label="How many more", **MORE_DEVICES.bounds, initial=1, widget=forms.NumberInput(attrs=SHORT)
    )
    hours = forms.IntegerField(
        label="For how many hours",
        **GRANT_HOURS.bounds,
        required=False,
        widget=forms.NumberInput(attrs=SHORT),
        help_text="72 is three days, counted from the approval. Empty: permanent.",
    )
    reason = forms.CharField(
        label="Why",
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Whoever decides reads it.",
    )

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["offer"].choices = _offers_for(tenant)  # type: ignore[attr-defined]

    def wish(self) -> RequestWish:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        seconds = typed["hours"] * HOUR if typed["hours"] else None
        return RequestWish(RequestKind(typed["kind"]), typed["count"], typed["reason"], seconds)


class SayForm(OnceForm):
    """A line for the history of a request."""

    text = forms.CharField(label="Your answer", max_length=1000, widget=forms.Textarea(attrs={"rows": 2}))


class DecideForm(OnceForm):
    """Yes to all or some of it, or no; which button was pressed is `decision`."""

    decision = forms.ChoiceField(
        choices=[("approve", "Approve"), ("decline", "Decline")], widget=forms.HiddenInput
    )
    count = forms.IntegerField(
        label="How many", **MORE_DEVICES.bounds, required=False, widget=forms.NumberInput(attrs=SHORT)
    )
    reason = forms.CharField(
        label="Why",
        max_length=1000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="The team reads it. Needed to decline.",
    )


class GrantForm(OnceForm):
    """How many more devices of which offer, until when."""

    offer = forms.ChoiceField(widget=forms.Select(attrs=SHORT))
    count = forms.IntegerField(
        label="How many more", **MORE_DEVICES.bounds, initial=1, widget=forms.NumberInput(attrs=SHORT)
    )
    ends_at = MomentField(
        label="Until (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", **SHORT}, format="%Y-%m-%dT%H:%M"),
    )
    reason = forms.CharField(label="Why", max_length=500, required=False)

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["offer"].choices = _offers_for(tenant)  # type: ignore[attr-defined]

    def wish(self) -> GrantWish:
        """What is given from now on; valid forms only."""
        typed = self.cleaned_data
        return GrantWish(typed["count"], typed["ends_at"], reason=typed["reason"])


class MoveForm(OnceForm):
    """How much of which guarantee, to which tenant of the department, and why."""

    offer = forms.ChoiceField(widget=forms.Select(attrs=SHORT))
    to = forms.ChoiceField(label="To", widget=forms.Select(attrs=SHORT))
    count = forms.IntegerField(
        label="How many", **MORE_DEVICES.bounds, initial=1, widget=forms.NumberInput(attrs=SHORT)
    )
    reason = forms.CharField(label="Why", max_length=500, required=False, help_text="Both teams can read it.")

    def __init__(self, giver: Tenant, others: Sequence[Tenant], *args: Any) -> None:
        super().__init__(*args)
        self._giver, self._others = giver, {tenant.slug: tenant for tenant in others}
        held = giver.quotas.filter(nominal_quota__gt=0).select_related("offer").order_by("offer__name")
        self._offers = {quota.offer.slug: quota.offer for quota in held}
        choices = [(q.offer.slug, f"{q.offer.name}: {q.nominal_quota} guaranteed") for q in held]
        self.fields["offer"].choices = choices  # type: ignore[attr-defined]
        self.fields["to"].choices = [(slug, each.name) for slug, each in self._others.items()]  # type: ignore[attr-defined]

    @property
    def is_possible(self) -> bool:
        """Whether there is something to move and a tenant to move it to."""
        return bool(self._offers and self._others)

    def move(self) -> Move:
        """What was typed; valid forms only."""
        typed = self.cleaned_data
        taker, offer = self._others[typed["to"]], self._offers[typed["offer"]]
        return Move(self._giver, taker, offer, typed["count"], typed["reason"])


class BudgetForm(OnceForm):
    """Limits of a calendar month; both empty takes the budget away."""

    unit = forms.ChoiceField(choices=BudgetUnit.choices(), widget=forms.Select(attrs=SHORT))
    soft = forms.DecimalField(
        label="Warn at",
        required=False,
        max_digits=12,
        decimal_places=2,
        widget=forms.NumberInput(attrs=SHORT),
        help_text="Tells leads and managers at 50, 80 and 100 % of it.",
    )
    hard = forms.DecimalField(
        label="Hold at",
        required=False,
        max_digits=12,
        decimal_places=2,
        widget=forms.NumberInput(attrs=SHORT),
        help_text="Nothing new starts beyond it until the next month; running work continues.",
    )

    def __init__(self, _owner: Tenant | Department, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def limits(self) -> Limits:
        """What is set; valid forms only."""
        typed = self.cleaned_data
        return Limits(BudgetUnit(typed["unit"]), typed["soft"], typed["hard"])


class HoldForm(OnceForm):
    """Why nothing new may start, or why it may again."""

    reason = forms.CharField(label="Why", max_length=500, help_text="The team reads it.")

    def __init__(self, _tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def _offers_for(tenant: Tenant) -> list[tuple[str, str]]:
    """Those that the tenant's trust level may use, as choices."""
    return [
        (offer.slug, offer.name)
        for offer in catalogue_offers.offers_of(tenant)
        if not catalogue_offers.refusal_of(offer, tenant)
    ]
