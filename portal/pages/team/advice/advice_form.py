"""The form of "Help me choose": what is needed, in the words of whoever needs it. It holds no rule."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from django import forms

from apps.errors import Invalid
from apps.ranges import AT_ONCE, RUN_SECONDS
from apps.workloads import registry
from apps.workloads.advice.rules import wishes
from apps.workloads.advice.rules.models import Precision, Task
from apps.workloads.advice.rules.situations import ISOLATED, USUAL_SECONDS, Need
from apps.workloads.advice.rules.wishes import ModelWish, NeedWish
from apps.workloads.specs import Kind
from portal.pages.parts.forms import PLAIN, SHORT
from portal.pages.team.workloads import as_typed

SENT = "at_once"
"""The field by which one knows that the form was sent, and not only its address opened."""
LONGEST = 40
_MEMORY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(?:([MGTP])(i?)B?)?", re.IGNORECASE | re.ASCII)
_FIELD_OF = {
    "/gpu_memory": "gpu_memory",
    "/model/billions": "billions",
    "/model/precision": "precision",
    "/at_once": "at_once",
}
_SHORT = {**SHORT, **PLAIN}


class AdviceForm(forms.Form):
    """A kind of work, its GPU memory or a model, how many, how long, and what matters."""

    kind = forms.ChoiceField(label="What is it?", widget=forms.Select(attrs=SHORT))
    gpu_memory = forms.CharField(
        label="GPU memory",
        required=False,
        max_length=LONGEST,
        help_text="For each, in GB, such as 20; or 20 GiB. Or name a model.",
        widget=forms.TextInput(attrs=_SHORT),
    )
    billions = forms.CharField(
        label="Or a model's size",
        required=False,
        max_length=LONGEST,
        help_text="Billions of parameters, such as 7.",
        widget=forms.TextInput(attrs=_SHORT),
    )
    task = forms.ChoiceField(
        label="What is done with the model?",
        choices=Task.choices(),
        required=False,
        widget=forms.Select(attrs=SHORT),
    )
    precision = forms.ChoiceField(
        label="Its weights",
        choices=Precision.choices(),
        required=False,
        initial=Precision.BF16,
        widget=forms.Select(attrs=SHORT),
    )
    at_once = forms.IntegerField(
        label="How many at once?",
        **AT_ONCE.bounds,
        initial=1,
        help_text="Items, replicas or nodes, each with that much.",
        widget=forms.NumberInput(attrs=SHORT),
    )
    hours = forms.CharField(
        label="For how many hours?",
        max_length=LONGEST,
        initial=as_typed.seconds_shown(USUAL_SECONDS),
        help_text="Such as 3, or 90m.",
        widget=forms.TextInput(attrs=_SHORT),
    )
    may_be_interrupted = forms.BooleanField(
        label="It may be interrupted: it keeps checkpoints, or can be run again", required=False
    )
    isolated = forms.BooleanField(label=ISOLATED.rstrip("."), required=False)
    cheap_first = forms.BooleanField(label="A low price matters more than an early start", required=False)

    def __init__(self, data: Mapping[str, Any] | None, **options: Any) -> None:
        super().__init__(data, **options)
        self.fields["kind"].choices = [(each.value, each.label) for each in registry.in_order()]  # type: ignore[attr-defined]
        self.need: Need | None = None

    def clean(self) -> dict[str, Any]:
        """The need, by the rules that REST has too; problems go beside their fields."""
        typed: dict[str, Any] = super().clean() or {}
        if self.errors:
            return typed
        try:
            model = _model(typed)
        except InvalidOperation:
            self.add_error("billions", "Not a number, such as 7 or 0.5.")
            return typed
        seconds = as_typed.seconds(typed["hours"])
        if not isinstance(seconds, int) or not RUN_SECONDS.holds(seconds):
            self.add_error("hours", "From 1m to 366 days, such as 3 or 90m.")
            return typed
        wish = NeedWish(
            kind=Kind(typed["kind"]),
            gpu_memory=_quantity(typed["gpu_memory"]),
            model=model,
            at_once=typed["at_once"],
            for_seconds=seconds,
            **{name: typed[name] for name in ("may_be_interrupted", "isolated", "cheap_first")},
        )
        try:
            self.need = wishes.need_of(wish)
        except Invalid as refusal:
            for problem in refusal.problems:
                self.add_error(_FIELD_OF.get(problem.pointer), problem.detail)
        return typed

    @property
    def chosen(self) -> Kind:
        """The kind; only of a valid form."""
        return Kind(self.cleaned_data["kind"])


def _quantity(text: str) -> str:
    """A quantity from what people type: `80`, `20 GB`, `20 GiB`. RULE: a bare number is GB, as GPUs are sold;
    one of 80 GB has less than 80 GiB. What is none of these stays, for the rules to refuse in their words.
    """
    typed = text.strip()
    found = _MEMORY.fullmatch(typed)
    if not found:
        return typed
    number, scale, binary = found.groups()
    return f"{number}{(scale or 'G').upper()}{(binary or '').lower()}"


def _model(typed: Mapping[str, Any]) -> ModelWish | None:
    if not typed["billions"].strip():
        return None
    size = Decimal(typed["billions"].strip())
    if not size.is_finite():
        raise InvalidOperation
    task, precision = typed["task"] or Task.INFERENCE, typed["precision"] or Precision.BF16
    return ModelWish(size, Precision(precision), Task(task))
