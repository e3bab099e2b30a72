"""The form of a template, made of its parameters. It shapes what was typed and holds no rule: the services
check it against the same parameters that REST checks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from apps.errors import Invalid
from apps.quotas.allowances.selectors.standing import OfferChoice
from apps.workloads.templates.rules.parameters import POINTER, Format, Parameter, ParameterType, Value
from portal.pages.templatetags.page import each_hour, per_hour

PREFIX = "p-"
SHORTER, LONGEST = 40, 1000
AS_IT_SAYS = ("", "as the template says")
FLAGS = (AS_IT_SAYS, ("True", "yes"), ("False", "no"))


class TemplateForm(forms.Form):
    """The name and a field for each parameter. `is_partial`: what is left empty is as the template says."""

    name = forms.CharField(
        label="Name",
        required=False,
        max_length=LONGEST,
        help_text="How people find it, such as rag-dev. Empty: a name is made.",
    )

    def __init__(
        self,
        parameters: Sequence[Parameter],
        offers: Sequence[OfferChoice],
        data: Mapping[str, Any] | None = None,
        *,
        is_partial: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(data, **options)
        self.parameters, self.is_partial = parameters, is_partial
        self.has_offers = any(each.allowed for each in offers)
        if is_partial:
            del self.fields["name"]
        for each in parameters:
            self.fields[f"{PREFIX}{each.name}"] = self._field(each, offers)

    def _field(self, of: Parameter, offers: Sequence[OfferChoice]) -> forms.Field:
        about: dict[str, Any] = {"label": _label(of), "required": False, "help_text": of.description}
        initial: Any = None if self.is_partial else of.default
        if of.type is ParameterType.FLAG and self.is_partial:
            # Not a box: one that is left empty would say no.
            return forms.TypedChoiceField(choices=FLAGS, coerce="True".__eq__, empty_value=None, **about)
        if of.type is ParameterType.FLAG:
            return forms.BooleanField(initial=initial, **about)
        if choices := self._choices(of, offers):
            first = choices[0][0]
            return forms.ChoiceField(choices=choices, initial=first if initial is None else initial, **about)
        if of.is_number:
            return forms.CharField(
                max_length=SHORTER,
                initial=initial,
                widget=forms.TextInput(attrs={"class": "short", "inputmode": "decimal"}),
                **about,
            )
        area = forms.Textarea(attrs={"rows": 3}) if of.format is Format.COMMAND else forms.TextInput()
        return forms.CharField(max_length=of.longest, initial=initial, widget=area, **about)

    def _choices(self, of: Parameter, offers: Sequence[OfferChoice]) -> list[tuple[str, str]]:
        none = [AS_IT_SAYS] if self.is_partial else []
        if of.choices:
            return [*none, *((str(each), str(each)) for each in of.choices)]
        if of.format is Format.OFFER:
            return [*none, *((each.offer.slug, told(each)) for each in offers if each.allowed)]
        return []

    @property
    def shown_name(self) -> str:
        """What was typed as its name; empty when one is to be made."""
        return str(self.data.get("name", "")).strip()

    @property
    def told_fields(self) -> list[forms.BoundField]:
        """What was filled in, as the review lists it; the offer stands beside it."""
        offers = {f"{PREFIX}{each.name}" for each in self.parameters if each.format is Format.OFFER}
        return [field for field in self.visible_fields() if field.data and field.name not in offers]

    def values(self) -> dict[str, Value]:
        """What was typed, by parameter; what was left empty is left out. Only of a valid form."""
        typed = {each: self.cleaned_data.get(f"{PREFIX}{each.name}") for each in self.parameters}
        return {of.name: _value(of, value) for of, value in typed.items() if value not in (None, "")}

    def take(self, refusal: Invalid) -> None:
        """Put each problem beside the field it is about, in the words the API uses."""
        for problem in refusal.problems:
            last = problem.pointer.rpartition("/")[2]
            is_parameter = problem.pointer.startswith((f"{POINTER}/", "/spec/values/"))
            name = f"{PREFIX}{last}" if is_parameter else "name" if last in ("slug", "name") else ""
            self.add_error(name if name in self.fields else None, problem.detail)


def _label(of: Parameter) -> str:
    return f"{of.title} ({of.unit.label})" if of.unit and of.unit.label != of.title.lower() else of.title


def told(choice: OfferChoice) -> str:
    """An offer as a choice names it."""
    price = "no price" if choice.hourly is None else per_hour(choice.hourly, choice.currency)
    if choice.offer.is_cores and choice.hourly is not None:
        price = f"{each_hour(choice.hourly, choice.offer)} {choice.currency}/h per core"
    return f"{choice.offer.name}: {price}, {'starts now' if choice.starts_now else 'waits'}"


def _value(of: Parameter, typed: Any) -> Value:
    """A number where it is one; else the text, for the rules to refuse in their words."""
    if not isinstance(typed, str):
        return bool(typed)
    text = typed.replace("\r\n", "\n").strip()
    is_number = of.is_number or (of.choices and not isinstance(of.choices[0], str))
    if not is_number or not text.isascii() or len(text) > SHORTER:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
