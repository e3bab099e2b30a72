"""The forms of the console's pages of offers and quotas. The rules are in the services."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from django import forms

from apps.accounts.specs import Actor
from apps.cluster.objects import quantities
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.allowances.services.weighing import DepartmentShare
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.services.booking import PriceWish
from apps.quotas.catalogue.services.offering import OfferChange, OfferWish
from apps.quotas.models import Flavor, Offer, Quota
from apps.quotas.specs import CapacityType, Priced
from apps.ranges import CHARGED_SECONDS, DEVICES, GENERATION, MOST_MONEY
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import TrustLevel
from portal.pages.parts.forms import PLAIN, SHORT, MomentField, OnceForm


class NewOfferForm(OnceForm):
    """An offer that the inventory has not brought."""

    flavor = forms.ChoiceField(widget=forms.Select(attrs=SHORT))
    profile = forms.CharField(
        required=False,
        max_length=32,
        widget=forms.TextInput(attrs=SHORT | PLAIN),
        help_text="MIG profile such as 2g.20gb. Empty: the whole GPU, or cores of nodes without one.",
    )
    slug = forms.SlugField(
        max_length=40, widget=forms.TextInput(attrs=PLAIN), help_text="Such as h100-2g-20gb."
    )
    name = forms.CharField(max_length=120, help_text='As people read it, such as "H100 2g.20gb MIG slice".')
    gpu_memory = forms.CharField(
        label="GPU memory",
        required=False,
        max_length=40,
        widget=forms.TextInput(attrs=SHORT),
        help_text="Empty: as found.",
    )
    cpu = forms.CharField(
        label="CPU cores",
        required=False,
        max_length=40,
        widget=forms.TextInput(attrs=SHORT),
        help_text="Empty: as found.",
    )
    memory = forms.CharField(
        required=False, max_length=40, widget=forms.TextInput(attrs=SHORT), help_text="Empty: as found."
    )

    def __init__(self, actor: Actor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.flavors = {
            flavor.slug: flavor for flavor in catalogue_offers.flavors_for(actor).order_by("slug")
        }
        self.fields["flavor"].choices = [(f.slug, f.name) for f in self.flavors.values()]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Quantities as people type them."""
        return _with_quantities(self, super().clean() or {}, ("gpu_memory", "cpu", "memory"))

    def wish(self) -> OfferWish:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        flavor: Flavor = self.flavors[typed["flavor"]]
        return OfferWish(
            flavor=flavor,
            slug=typed["slug"],
            name=typed["name"],
            profile=typed["profile"],
            gpu_memory_bytes=typed["gpu_memory"],
            cpu_millis=typed["cpu"],
            memory_bytes=typed["memory"],
        )


class OfferForm(OnceForm):
    """What may always change of an offer."""

    name = forms.CharField(max_length=120)
    description = forms.CharField(
        label="What it is for", required=False, max_length=500, widget=forms.Textarea(attrs={"rows": 2})
    )
    min_trust_level = forms.ChoiceField(
        label="Least trust", choices=TrustLevel.choices(), widget=forms.Select(attrs=SHORT)
    )
    cpu = forms.CharField(
        label="CPU cores",
        max_length=40,
        widget=forms.TextInput(attrs=SHORT),
        help_text="Come with one device; of an offer of cores 1.",
    )
    memory = forms.CharField(
        max_length=40, widget=forms.TextInput(attrs=SHORT), help_text="Comes with one device or core."
    )
    enabled = forms.BooleanField(label="Offered", required=False, help_text="Off: nothing new starts on it.")

    @classmethod
    def of(cls, offer: Offer, data: Mapping[str, Any] | None) -> "OfferForm":
        """The form with the offer's present values."""
        kept = {
            "name": offer.name,
            "description": offer.description,
            "min_trust_level": offer.min_trust_level,
            "cpu": quantities.format_millis(offer.cpu_millis),
            "memory": quantities.format_bytes(offer.memory_bytes),
            "enabled": offer.enabled,
        }
        return cls(data, initial=kept)

    def clean(self) -> dict[str, Any]:
        """Quantities as people type them."""
        return _with_quantities(self, super().clean() or {}, ("cpu", "memory"))

    def change(self) -> OfferChange:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        return OfferChange(
            name=typed["name"],
            min_trust_level=TrustLevel(typed["min_trust_level"]),
            enabled=typed["enabled"],
            description=typed["description"],
            cpu_millis=typed["cpu"],
            memory_bytes=typed["memory"],
        )


class PriceForm(OnceForm):
    """A new price from a moment on: of one offer's devices, or of cores and GiB (`resource`)."""

    resource = forms.ChoiceField(
        label="Of", choices=[(each.value, f"{each.label}, per {each.unit} and hour") for each in Priced
                             if each is not Priced.GPU],
    )  # fmt: skip
    hourly = forms.DecimalField(
        label="Price per device or core, and hour", min_value=Decimal(0), max_value=MOST_MONEY, max_digits=20,
        decimal_places=8,
        widget=forms.NumberInput(attrs=SHORT | {"step": "0.01"}),
    )  # fmt: skip
    valid_from = MomentField(
        label="From", required=False, widget=forms.DateTimeInput(attrs=SHORT | {"type": "datetime-local"}),
        help_text="UTC. Empty: from now on.",
    )  # fmt: skip
    valid_until = MomentField(
        label="Until", required=False, widget=forms.DateTimeInput(attrs=SHORT | {"type": "datetime-local"}),
        help_text="UTC. Empty: until the next one. After it the price before holds again.",
    )  # fmt: skip
    tenant = forms.ChoiceField(label="For", required=False)
    capacity = forms.ChoiceField(
        label="On capacity", required=False, choices=[("", "Any"), *CapacityType.choices()],
        help_text="How the node was bought.",
    )  # fmt: skip
    least_seconds = forms.IntegerField(
        label="Least that is charged, in seconds", required=False, **CHARGED_SECONDS.bounds,
        widget=forms.NumberInput(attrs=SHORT),
        help_text="The time charged is rounded up to a multiple of this. Empty: 1.",
    )  # fmt: skip

    def __init__(self, tenants: Iterable[Tenant], *args: Any, offer: Offer | None = None) -> None:
        super().__init__(*args)
        self.tenants, self.offer = {tenant.slug: tenant for tenant in tenants}, offer
        choices = [("", "Everybody"), *((slug, each.name) for slug, each in self.tenants.items())]
        self.fields["tenant"].choices = choices  # type: ignore[attr-defined]
        if offer is not None:
            del self.fields["resource"]
        else:
            self.fields["hourly"].label = "Price per hour"

    def wish(self) -> PriceWish:
        """What was typed, for the service."""
        typed = self.cleaned_data
        return PriceWish(
            hourly=typed["hourly"],
            offer=self.offer,
            resource=Priced.GPU if self.offer else Priced(typed["resource"]),
            tenant=self.tenants.get(typed["tenant"]),
            capacity=CapacityType(typed["capacity"]) if typed["capacity"] else None,
            valid_from=typed["valid_from"],
            valid_until=typed["valid_until"],
            least_seconds=typed["least_seconds"] or 1,
        )


class QuotaForm(OnceForm):
    """What a tenant is guaranteed of an offer, may borrow and must lend. `generation` is that of what was
    shown, so that two people do not undo each other.
    """

    nominal_quota = forms.IntegerField(
        label="Guaranteed", **DEVICES.bounds, widget=forms.NumberInput(attrs=SHORT), help_text="Devices."
    )
    borrowing_limit = forms.IntegerField(
        label="May borrow", required=False, **DEVICES.bounds, widget=forms.NumberInput(attrs=SHORT),
        help_text="Devices of others. Empty: whatever is lent.",
    )  # fmt: skip
    lending_limit = forms.IntegerField(
        label="Must lend", required=False, **DEVICES.bounds, widget=forms.NumberInput(attrs=SHORT),
        help_text="At most, while idle. Empty: all of it.",
    )  # fmt: skip
    generation = forms.IntegerField(**GENERATION.bounds, widget=forms.HiddenInput)

    @classmethod
    def of(cls, quota: Quota | None, data: Mapping[str, Any] | None) -> "QuotaForm":
        """The form with the present amounts; without quota: nothing guaranteed, nothing borrowed."""
        if quota is None:
            return cls(data, initial={"nominal_quota": 0, "borrowing_limit": 0, "generation": 0})
        kept = {field: getattr(quota, field) for field in (*_AMOUNTS, "generation")}
        return cls(data, initial=kept)

    def amounts(self) -> Amounts:
        """What is asked for; valid forms only."""
        return Amounts(*(self.cleaned_data[field] for field in _AMOUNTS))


_AMOUNTS = ("nominal_quota", "borrowing_limit", "lending_limit")


class WeightForm(OnceForm):
    """A tenant's weight among those who borrow."""

    fair_weight = forms.DecimalField(
        label="Weight", min_value=Decimal(0), max_digits=7, decimal_places=3,
        widget=forms.NumberInput(attrs=SHORT | {"step": "any"}),
        help_text="1 is the usual, 2 gets twice as much of what is lent, 0 borrows last of all.",
    )  # fmt: skip


class ShareForm(WeightForm):
    """A department's place and weight, and what it borrows and lends by offer. `generation` is that of what
    was shown, so that two people do not undo each other.
    """

    parent = forms.ChoiceField(label="Below", required=False, widget=forms.Select(attrs=SHORT))
    generation = forms.IntegerField(**GENERATION.bounds, widget=forms.HiddenInput)

    def __init__(
        self, others: Iterable[Department], offers: Iterable[Offer], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.others = {department.slug: department for department in others}
        self.offers = {offer.slug: offer for offer in offers}
        choices = [("", "No other department"), *((d.slug, d.name) for d in self.others.values())]
        self.fields["parent"].choices = choices  # type: ignore[attr-defined]
        for slug in self.offers:
            for end, (label, empty) in _ENDS.items():
                self.fields[f"{end}-{slug}"] = forms.IntegerField(
                    label=label, required=False, **DEVICES.bounds, widget=forms.NumberInput(attrs=SHORT),
                    help_text=empty,
                )  # fmt: skip

    @property
    def place(self) -> list[forms.BoundField]:
        """The fields that do not depend on an offer."""
        return [self[name] for name in ("parent", "fair_weight")]

    @property
    def by_offer(self) -> list[tuple[Offer, list[forms.BoundField]]]:
        """What is."""
        return [(offer, [self[f"{end}-{slug}"] for end in _ENDS]) for slug, offer in self.offers.items()]

    def share(self) -> DepartmentShare:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        bounds = {
            offer: (typed[f"borrowing-{slug}"], typed[f"lending-{slug}"])
            for slug, offer in self.offers.items()
        }
        return DepartmentShare(self.others.get(typed["parent"]), typed["fair_weight"], bounds)


_ENDS = {
    "borrowing": ("May borrow", "Devices from above. Empty: no limit."),
    "lending": ("Must lend", "At most, while idle. Empty: all of it."),
}


def _with_quantities(form: forms.Form, typed: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Text as Kubernetes has it into whole numbers; None where nothing was typed."""
    for name in names:
        text = typed.get(name) or ""
        parse = quantities.cpu_millis if name == "cpu" else quantities.memory_bytes
        try:
            typed[name] = parse(text) if text else None
        except ValueError as error:
            form.add_error(name, str(error))
    return typed
