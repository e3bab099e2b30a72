"""How templates look in REST, and what their writes take. The rules are in `apps.workloads.templates`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from rest_framework import serializers

from apps.ranges import MOST_LABELS, MOST_NAMED, PARAMETER_CHARACTERS, TEMPLATE_VERSION
from apps.tenants.specs import TrustLevel
from apps.web.shapes.bodies import Money, ObjectHead, common
from apps.web.shapes.typed import keywords
from apps.workloads.secrets.rules.wishes import MOST_SECRETS
from apps.workloads.specs import Kind
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.rules import parameters as rules
from apps.workloads.templates.rules import reading
from apps.workloads.templates.rules.comparing import Difference
from apps.workloads.templates.rules.parameters import Format, Parameter, ParameterType, Unit
from apps.workloads.templates.rules.source import LONGEST
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.selectors.catalogue import Audience
from apps.workloads.templates.selectors.experience import Experience
from portal.api.base.money import money
from portal.api.base.serializers import BoundedDict, BoundedList, Shaped, StrictSerializer
from portal.api.workloads.workloads_bodies import Labels, NewSecretSerializer, printable

Given = str | float | bool
"""A value as JSON has it: whole numbers are numbers too."""
SLUG = r"^[a-z][a-z0-9-]{0,39}$"


class ParameterWish(TypedDict):
    """One parameter. A null is the same as leaving out."""

    name: Annotated[str, keywords(pattern=f"^{reading.NAME.pattern}$")]
    title: NotRequired[Annotated[str | None, keywords(maxLength=reading.LONGEST_TITLE)]]
    description: NotRequired[Annotated[str | None, keywords(maxLength=reading.LONGEST_WORDS)]]
    type: NotRequired[Annotated[ParameterType | None, "string unless named."]]
    default: NotRequired[Annotated[Given | None, "Null: it must be given."]]
    unit: NotRequired[
        Annotated[Unit | None, "hours and minutes are seconds in the spec, GiB and cores quantities."]
    ]
    format: NotRequired[Annotated[Format | None, "What a text is: the form offers it as such."]]
    minimum: NotRequired[float | None]
    maximum: NotRequired[float | None]
    max_length: NotRequired[
        Annotated[int | None, keywords(minimum=PARAMETER_CHARACTERS.least, maximum=PARAMETER_CHARACTERS.most)]
    ]
    choices: NotRequired[Annotated[list[Given] | None, keywords(maxItems=reading.MOST_CHOICES)]]


class ParameterField(Shaped, serializers.JSONField):
    """A parameter; `reading` checks it."""

    shape = ParameterWish


class VersionSerializer(StrictSerializer):
    """What a version says."""

    parameters = BoundedList(child=ParameterField(), max_length=reading.MOST_PARAMETERS)
    workload = BoundedDict(
        child=serializers.JSONField(allow_null=True),
        max_length=MOST_LABELS,
        help_text="the spec of a workload; a text that is nothing but {{name}} becomes that value",
    )
    notes = serializers.CharField(max_length=500, allow_blank=True, default="", validators=[printable])


class TemplateSpecSerializer(StrictSerializer):
    """For whom it is. departments and tenants null: for everybody."""

    description = serializers.CharField(max_length=500, allow_blank=True, default="", validators=[printable])
    least_trust = serializers.ChoiceField(choices=TrustLevel.choices(), default=str(TrustLevel.UNTRUSTED))
    departments = BoundedList(
        child=serializers.CharField(max_length=40), allow_null=True, default=None, max_length=MOST_NAMED
    )
    tenants = BoundedList(
        child=serializers.CharField(max_length=40), allow_null=True, default=None, max_length=MOST_NAMED
    )


class TemplateDocumentSerializer(StrictSerializer):
    """The writable part of an entry: what PUT takes, and PATCH after merging."""

    name = serializers.CharField(max_length=120, validators=[printable])
    spec = TemplateSpecSerializer()


class NewTemplateSerializer(TemplateDocumentSerializer):
    """What POST takes."""

    slug = serializers.RegexField(SLUG)
    version = VersionSerializer()


class TemplateImportSerializer(StrictSerializer):
    """A template as one YAML."""

    source = serializers.CharField(  # type: ignore[assignment]
        max_length=LONGEST, trim_whitespace=False
    )


class TemplateUseSerializer(StrictSerializer):
    """What a workload is made with; what is left out has the tenant's default, else the template's."""

    tenant = serializers.CharField(max_length=64)
    slug = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    name = serializers.CharField(required=False, allow_blank=True, max_length=120, validators=[printable])
    labels = Labels(required=False)
    parameters = BoundedDict(
        child=serializers.JSONField(allow_null=True), default=dict, max_length=reading.MOST_PARAMETERS
    )
    version = serializers.IntegerField(
        **TEMPLATE_VERSION.bounds, allow_null=True, default=None, help_text="null: the newest"
    )
    secrets = NewSecretSerializer(many=True, required=False, max_length=MOST_SECRETS)  # type: ignore[call-arg]


class DefaultsSerializer(StrictSerializer):
    """What PUT takes: by template, parameter and value. What is not named has none."""

    spec = BoundedDict(
        child=BoundedDict(child=serializers.JSONField(allow_null=True), max_length=reading.MOST_PARAMETERS),
        max_length=MOST_NAMED,
    )


class ParameterBody(TypedDict):
    """One parameter."""

    name: str
    title: str
    description: str
    type: ParameterType
    default: Annotated[Given | None, "Null: it must be given."]
    unit: Unit | None
    format: Format | None
    minimum: float | None
    maximum: float | None
    max_length: Annotated[int | None, "Of a text."]
    choices: Annotated[list[Given], "Empty: whatever fits."]


class TemplateSpecBody(TypedDict):
    """For whom it is."""

    description: str
    least_trust: TrustLevel
    departments: Annotated[list[str] | None, "Those that you see; null: every one."]
    tenants: Annotated[list[str] | None, "Those that you see; null: every one."]


class TemplateStatusBody(TypedDict):
    """What it makes, and what came of it: of the workloads that you see, deleted ones included."""

    kind: Kind
    version: Annotated[int, "The newest, which counts."]
    schema: Annotated[Mapping[str, Any], "JSON Schema of `parameters`; `x-unit`: in what a number counts."]
    retired_at: Annotated[datetime | None, "Null: it can be used."]
    reason: Annotated[str | None, "Why it was retired."]
    workloads: int
    median_cost: Annotated[Money | None, "Of those that held devices; null: none did."]
    usual_waste: Annotated[float | None, "Median part of what was measured, 0 to 1; null: unknown."]


class TemplateBody(ObjectHead):
    """A template of the catalogue."""

    object: Literal["template"]
    spec: TemplateSpecBody
    status: TemplateStatusBody


class TemplateVersionBody(TypedDict):
    """A version; it never changes."""

    object: Literal["template-version"]
    template: str
    number: int
    parameters: list[ParameterBody]
    workload: Annotated[Mapping[str, Any], "The spec, with places such as {{hours}}."]
    notes: str
    schema: Annotated[Mapping[str, Any], "JSON Schema of `parameters`."]
    created_at: datetime
    created_by: str | None


class DifferenceBody(TypedDict):
    """One place that changed; null: it is not there."""

    pointer: str
    before: Any
    after: Any


class TemplateDiffBody(TypedDict):
    """What changed between two versions."""

    object: Literal["template-diff"]
    template: str
    before: int
    after: int
    changes: list[DifferenceBody]


class TemplateDefaultsBody(TypedDict):
    """What a tenant's forms start with."""

    object: Literal["template-defaults"]
    tenant: str
    spec: Annotated[Mapping[str, Mapping[str, Any]], "By template, parameter and value."]


def template_body(
    row: Template, parameters: Sequence[Parameter], audience: Audience, came: Experience
) -> TemplateBody:
    """A template; `audience` is as far as the caller sees it."""
    departments, tenants = audience.departments, audience.tenants
    return {
        "object": "template",
        **common(row, slug=row.slug, name=row.name, created_by=row.created_by),
        "spec": {
            "description": row.description,
            "least_trust": TrustLevel(row.least_trust),
            "departments": None if departments is None else [each.slug for each in departments],
            "tenants": None if tenants is None else [each.slug for each in tenants],
        },
        "status": {
            "kind": Kind(row.kind),
            "version": row.version,
            "schema": rules.schema(parameters),
            "retired_at": row.retired_at,
            "reason": row.retired_reason or None,
            "workloads": came.workloads,
            "median_cost": money(came.median_cost),
            "usual_waste": came.usual_waste,
        },
    }


def version_body(row: TemplateVersion) -> TemplateVersionBody:
    """A version."""
    parameters = catalogue.definition_of(row).parameters
    return {
        "object": "template-version",
        "template": row.template.slug,
        "number": row.number,
        "parameters": [_parameter(each) for each in parameters],
        "workload": row.workload,
        "notes": row.notes,
        "schema": rules.schema(parameters),
        "created_at": row.created_at,
        "created_by": row.created_by or None,
    }


def _parameter(of: Parameter) -> ParameterBody:
    return {
        "name": of.name,
        "title": of.title,
        "description": of.description,
        "type": of.type,
        "default": of.default,
        "unit": of.unit,
        "format": of.format,
        "minimum": of.least,
        "maximum": of.most,
        "max_length": of.longest if of.type is ParameterType.TEXT else None,
        "choices": list(of.choices),
    }


def diff_body(
    row: Template, before: TemplateVersion, after: TemplateVersion, changes: Sequence[Difference]
) -> TemplateDiffBody:
    """What changed."""
    return {
        "object": "template-diff",
        "template": row.slug,
        "before": before.number,
        "after": after.number,
        "changes": [{"pointer": c.pointer, "before": c.before, "after": c.after} for c in changes],
    }
