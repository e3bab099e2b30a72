"""The catalogue of templates as tables. `apps.workloads.models` registers them."""

import uuid

from django.db import models

from apps.audit.specs import Target
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import TrustLevel
from apps.workloads.specs import kind_choices


class Template(models.Model):
    """An entry of the catalogue of templates: what it is called and who may use it. What it makes stands in
    its versions, of which the newest counts. Retired: nothing new is made from it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    description = models.CharField(max_length=500, blank=True)
    kind = models.CharField(max_length=16, choices=kind_choices, help_text="of its newest version")
    version = models.PositiveIntegerField(default=1, help_text="its newest")
    least_trust = models.CharField(max_length=16, choices=TrustLevel.choices(), default=TrustLevel.UNTRUSTED)
    is_for_all = models.BooleanField(default=True, help_text="else for `departments` and `tenants` alone")
    departments = models.ManyToManyField(Department, related_name="templates")
    tenants = models.ManyToManyField(Tenant, related_name="templates")
    retired_at = models.DateTimeField(null=True)
    retired_reason = models.CharField(max_length=500, blank=True)
    generation = models.PositiveIntegerField(default=1)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("template", self.pk, self.slug)


class TemplateVersion(models.Model):
    """What a template makes, from then until the next version. It never changes.

    Both are as `apps.workloads.templates.rules.reading` reads them.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    template = models.ForeignKey(Template, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    parameters = models.JSONField(help_text="a list, in the order of the form")
    workload = models.JSONField(help_text="the spec, with places such as {{hours}}")
    notes = models.CharField(max_length=500, blank=True, help_text="what changed, for people")
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="template_version_once")]

    def __str__(self) -> str:
        return f"{self.template_id} v{self.number}"


class TemplateDefaults(models.Model):
    """What one tenant's forms start with, in place of the template's own defaults."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    template = models.ForeignKey(Template, on_delete=models.CASCADE, related_name="defaults")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="template_defaults")
    values = models.JSONField(default=dict, help_text="parameter -> value")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["template", "tenant"], name="template_defaults_once_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.template_id} of {self.tenant_id}"

    @property
    def audit_target(self) -> Target:
        """In the tenant's chain."""
        return Target("template-defaults", self.pk, self.template.slug, self.tenant.slug)
