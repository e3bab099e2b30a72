"""The forms of the console's pages of templates. The rules are in the services."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from apps.tenants.models import Department, Tenant
from apps.tenants.specs import TrustLevel
from apps.workloads.template_models import Template
from apps.workloads.templates.selectors.catalogue import Audience
from apps.workloads.templates.services.keeping import Entry
from portal.pages.parts.forms import PLAIN, OnceForm, to_choose

MOST_CHARACTERS = 32 * 1024


class EntryForm(OnceForm):
    """What a template is called and for whom it is."""

    name = forms.CharField(max_length=120)
    description = forms.CharField(
        label="What it is for", required=False, max_length=500, widget=forms.Textarea(attrs={"rows": 2})
    )
    least_trust = forms.ChoiceField(
        label="From trust level", choices=TrustLevel.choices(), initial=TrustLevel.UNTRUSTED
    )
    departments = forms.MultipleChoiceField(
        label="Departments", required=False, widget=forms.SelectMultiple(attrs={"size": 4})
    )
    tenants = forms.MultipleChoiceField(
        label="Tenants", required=False, widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="Neither department nor tenant chosen: everybody.",
    )  # fmt: skip

    def __init__(
        self, departments: Iterable[Department], tenants: Iterable[Tenant], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.departments_by_slug = {each.slug: each for each in departments}
        self.tenants_by_slug = {each.slug: each for each in tenants}
        for name, known in (("departments", self.departments_by_slug), ("tenants", self.tenants_by_slug)):
            self.fields[name].choices = to_choose(known.values())  # type: ignore[attr-defined]

    @classmethod
    def of(
        cls,
        template: Template,
        audience: Audience,
        choices: tuple[Iterable[Department], Iterable[Tenant]],
        data: Mapping[str, Any] | None,
    ) -> "EntryForm":
        """The form with the entry's present values."""
        kept = {
            "name": template.name,
            "description": template.description,
            "least_trust": template.least_trust,
            "departments": [each.slug for each in audience.departments or ()],
            "tenants": [each.slug for each in audience.tenants or ()],
        }
        departments = [*choices[0], *(audience.departments or ())]
        return cls(departments, [*choices[1], *(audience.tenants or ())], data, initial=kept)

    def entry(self) -> Entry:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        departments = tuple(self.departments_by_slug[slug] for slug in typed["departments"])
        tenants = tuple(self.tenants_by_slug[slug] for slug in typed["tenants"])
        audience = Audience(departments, tenants) if departments or tenants else Audience()
        return Entry(typed["name"], typed["description"], TrustLevel(typed["least_trust"]), audience)


class SourceForm(OnceForm):
    """A template as one YAML."""

    source = forms.CharField(
        label="YAML", max_length=MOST_CHARACTERS, strip=False,
        widget=forms.Textarea(attrs=PLAIN | {"rows": 24}),
        help_text="docs/templates.md says what it may hold.",
    )  # fmt: skip
