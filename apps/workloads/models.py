"""What tenants run."""

import uuid
from datetime import datetime
from decimal import Decimal

from django.db import models
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.audit.specs import Target
from apps.cluster.models import OF_THE_RECONCILE, Reconciled
from apps.quotas.models import Offer
from apps.rows import Row
from apps.sealing import key_in_force
from apps.tenants.models import Tenant
from apps.workloads import log_models, template_models, token_models  # noqa: F401 - tables of this app
from apps.workloads.hours_specs import WorkingHours
from apps.workloads.secret_specs import Into, SecretKey
from apps.workloads.specs import ImageLimits, ImagesAllowed, OpenTo, Phase, kind_choices

NONE_OF_IT = models.Value([], models.JSONField())
"""What rows get that are made by a process of the release before."""
PREEMPTIONS = models.Q(source="kueue", reason="Preempted")


class Workload(Reconciled):
    """Work of some kind that somebody asked for. `spec` is what was asked, the rest what was observed.

    `object_name` names every object of it in the tenant's namespace and is made once. The usage columns are
    written by metering through `cost_keeping`, badges and idleness through `idling.record_finding`;
    nothing here reads upwards.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="workloads")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="workloads")
    slug = models.SlugField(max_length=40)
    name = models.CharField(max_length=120)
    labels = models.JSONField(default=dict)
    kind = models.CharField(max_length=16, choices=kind_choices)
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="workloads")
    spec = models.JSONField(help_text="the WorkloadSpec as JSON, defaults filled in")
    suspended = models.BooleanField(default=False, help_text="spec.suspend: stopped on request, may resume")
    idle_by_lead = models.BooleanField(
        default=False, help_text="spec.idle_policy counts as given, not only where it is stricter"
    )
    keep_volumes = models.BooleanField(default=False, help_text="a deletion leaves its volume claims")
    object_name = models.CharField(max_length=63, unique=True)
    template = models.SlugField(
        max_length=40, blank=True, default="", db_default="", db_index=False,
        help_text="the slug of the template it was made from; empty: of none",
    )  # fmt: skip
    template_version = models.PositiveIntegerField(null=True, help_text="and which version of it")
    keeps_image = models.BooleanField(
        default=False,
        db_default=False,
        help_text="of the present run: PlacementSpec.keeps_image, settled when it is made",
    )
    names_pull_secret = models.BooleanField(
        default=False,
        db_default=False,
        help_text="of the present run: its pods name the tenant's pull secret",
    )
    secret_names = models.JSONField(
        default=list, db_default=NONE_OF_IT, help_text="of its secrets: name and into, by name"
    )
    run_secrets = models.JSONField(
        default=list,
        db_default=NONE_OF_IT,
        help_text="of the present run: the secret_names that its pods name",
    )
    run_key = models.CharField(
        max_length=8, default=key_in_force, db_default="", help_text="secret key of the IDE's present token"
    )

    phase = models.CharField(max_length=16, choices=Phase.choices(), default=Phase.PENDING, db_index=True)
    queue = models.JSONField(null=True, help_text="the queue's own reason and message while it waits")
    held_at = models.DateTimeField(null=True, help_text="when a platform engineer took it out of the queue")
    hold_reason = models.TextField(blank=True, help_text="why, in that person's words")
    queue_priority = models.IntegerField(null=True, help_text="moved to this priority; null: its own")
    told_cause = models.CharField(max_length=64, blank=True, help_text="of which wait its owner was told why")
    items = models.JSONField(
        null=True, help_text="of an array: total, and which items are done and which failed, as 3,7-9"
    )
    replicas = models.JSONField(
        null=True, help_text="of a service that is on: status.replicas.Replicas; null: none"
    )
    placement = models.JSONField(default=list, help_text="pods with node and devices")
    asked_at = models.DateTimeField(default=timezone.now, help_text="when it was last asked to run")
    started_at = models.DateTimeField(null=True, help_text="of the present run")
    ended_at = models.DateTimeField(null=True)
    last_run = models.JSONField(
        null=True, help_text="how the last run that is over ended, as status.last_run keeps it; null: none is"
    )
    stops_at = models.DateTimeField(null=True, help_text="when its lease runs out")
    extended_seconds = models.PositiveIntegerField(default=0)
    hours_due_at = models.DateTimeField(
        null=True, help_text="when its working hours stop it or, while it is stopped, start it; null: never"
    )
    protected_until = models.DateTimeField(null=True, help_text="of the present run, where it is protected")
    badges = models.JSONField(default=list, help_text="conditions that metering found: Idle, Hoarder ...")
    idle_stops_at = models.DateTimeField(null=True, help_text="when the idle policy stops it")
    idle = models.JSONField(
        null=True, help_text="of that countdown: url, message, extendable_until, extensions_left, evidence"
    )
    gpu_idle_since = models.DateTimeField(
        null=True, help_text="since when its devices do nothing, as metering found; null: used, or unknown"
    )
    ide = models.JSONField(
        null=True, help_text="what its IDE said last, as opening.rules.ide_activity keeps it, or the problem"
    )
    ide_asked_at = models.DateTimeField(null=True, help_text="when its IDE was last asked")
    shell_used_at = models.DateTimeField(
        null=True, help_text="when somebody last typed in a shell of the present run, to the minute"
    )
    next_offer = models.ForeignKey(
        Offer, on_delete=models.PROTECT, null=True, related_name="+", help_text="taken when it starts again"
    )
    former_offer = models.ForeignKey(
        Offer, on_delete=models.PROTECT, null=True, related_name="+", help_text="what a resize left behind"
    )

    cost_hourly = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_allocated = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    cost_refunded = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    cost_effective = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_waste = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_recoverable = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, help_text="of the waste; the rest is inefficiency"
    )
    cost_unknown = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_last_refund = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, help_text="of the run that was lost last"
    )
    cost_last_refund_end = models.DateTimeField(null=True, help_text="when that run ended")
    cost_as_of = models.DateTimeField(null=True)

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True, help_text="last change by people or of the status")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "slug"],
                condition=models.Q(deleted_at__isnull=True),
                name="workload_slug_once_per_tenant",
            )
        ]
        indexes = [
            models.Index(fields=["tenant", "-created_at"], name="workload_by_tenant"),
            models.Index(fields=["cluster", "phase", "-updated_at"], name="workload_by_change"),
            models.Index(
                fields=["template", "-created_at"],
                condition=~models.Q(template=""),
                name="workload_by_template",
            ),
            models.Index(
                fields=["hours_due_at"],
                condition=models.Q(hours_due_at__isnull=False),
                name="workload_by_hours",
            ),
            models.Index(
                fields=["updated_at"],
                condition=~models.Q(generation=models.F("observed_generation"))
                & models.Q(attempts=0, deleted_at=None),
                name="workload_untried",
            ),
            models.Index(fields=["lease_until"], name="workload_by_lease"),
            models.Index(fields=["tenant", "ended_at"], name="workload_by_end"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("workload", self.pk, self.slug, self.tenant.slug)

    @property
    def open_to(self) -> str:
        """Who opens it, in the words of `OpenTo`."""
        return str((self.spec.get(self.kind) or {}).get("open_to") or OpenTo.OWNER)

    @property
    def cost_charged(self) -> Decimal:
        """What it costs so far: allocated less refunded."""
        return self.cost_allocated - self.cost_refunded

    @property
    def cost_inefficiency(self) -> Decimal | None:
        """The part of its waste that is not recoverable; None as for both."""
        if self.cost_waste is None or self.cost_recoverable is None:
            return None
        return self.cost_waste - self.cost_recoverable

    @property
    def hours(self) -> WorkingHours | None:
        """When it is wanted; None: until somebody stops it."""
        kept = (self.spec.get("notebook") or {}).get("hours")
        return WorkingHours.stored(kept) if kept else None

    @property
    def hours_stop(self) -> datetime | None:
        """When its working hours stop it; None while they do not."""
        return None if self.suspended else self.hours_due_at

    @property
    def first_stop(self) -> datetime | None:
        """The earliest of its ends: its lease's, the idle policy's and its working hours'."""
        return min(filter(None, (self.stops_at, self.idle_stops_at, self.hours_stop)), default=None)


UNLISTED = (
    *OF_THE_RECONCILE,
    "deleted_at",
    "extended_seconds",
    "former_offer",
    "ide_asked_at",
    "idle_by_lead",
    "keep_volumes",
    "queue",
    "queue_priority",
    "run_key",
    "run_secrets",
    "secret_names",
    "told_cause",
)
"""Columns that no list shows."""


class WorkloadEvent(models.Model):
    """One line of a workload's story: a transition seen by the reconcile, or a warning of the cluster."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    source = models.CharField(max_length=16, help_text="allotment, kueue or kubernetes")
    type = models.CharField(max_length=8, help_text="Normal or Warning")
    reason = models.CharField(max_length=64)
    message = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["workload", "-at"], name="workload_event_by_time"),
            models.Index(fields=["reason", "at"], condition=PREEMPTIONS, name="workload_event_preempted"),
        ]

    def __str__(self) -> str:
        return f"{self.reason} at {self.at:%H:%M:%S}"


class WorkloadSecret(models.Model):
    """A value for one workload's environment or files: sealed, and never read but to make its Secret."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=128)
    into = models.CharField(max_length=8, choices=Into.choices())
    sealed = models.TextField()
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "name"], name="secret_once_per_workload")]

    def __str__(self) -> str:
        return f"{self.name} of {self.workload_id}"

    @property
    def key(self) -> SecretKey:
        """All of it that may be told."""
        return SecretKey(self.name, Into(self.into))


class Opening(models.Model):
    """A person's way into one workload in one browser: a code that is used once, then a cookie; of a terminal
    the code alone, which its connection ends with.

    Of both only the SHA-256 is kept. It belongs to the credential that asked for it, and ends with it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="openings")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="openings")
    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, null=True, related_name="+")
    session = models.CharField(max_length=40, blank=True, help_text="whose sign-in it is; empty: a token's")
    code = models.CharField(max_length=64, unique=True)
    code_ends_at = models.DateTimeField()
    is_terminal = models.BooleanField(
        default=False, db_default=False, help_text="its code opens a shell, and no page"
    )
    browser = models.CharField(max_length=64, blank=True, help_text="in which the person confirmed it")
    cookie = models.CharField(max_length=64, null=True, unique=True)
    ends_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["ends_at"], name="opening_by_end")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.workload_id}"


class StartEstimate(Row):
    """One estimate of when a waiting workload starts. Only its outcome is added later.

    `asked_at` says for which wait it was made. Its outcome is a start, or none when the wait was given up.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="estimates")
    asked_at = models.DateTimeField()
    made_at = models.DateTimeField()
    looked_at = models.DateTimeField(help_text="when it was last found to hold still")
    p10 = models.DateTimeField(null=True, help_text="null: nothing is known")
    p50 = models.DateTimeField(null=True)
    p90 = models.DateTimeField(null=True)
    position = models.PositiveIntegerField()
    settled_at = models.DateTimeField(null=True, help_text="when its outcome was read")
    started_at = models.DateTimeField(null=True, help_text="the outcome; null: it never started")

    class Meta:
        indexes = [
            models.Index(fields=["workload", "-made_at"], name="estimate_by_workload"),
            models.Index(fields=["settled_at", "-made_at"], name="estimate_by_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} about {self.p50}"


PLATFORM_RULE = uuid.UUID(int=1)
"""The id of the rule that counts for every tenant without one of its own."""


class Image(models.Model):
    """An image of the catalogue, from which people choose. Retired: nothing new starts with it.

    `full_reference` is the reference with registry and tag written out, by which two spellings are one image.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    description = models.CharField(max_length=500, blank=True)
    reference = models.CharField(max_length=255)
    full_reference = models.CharField(max_length=280)
    size_bytes = models.BigIntegerField(null=True, help_text="compressed, as it is pulled; null: unknown")
    cuda_version = models.CharField(max_length=8, blank=True, help_text="such as 12.4; empty: it has none")
    kinds = models.JSONField(default=list, help_text="workloads.specs.Kind; in order")
    is_for_all = models.BooleanField(default=True, help_text="else for `tenants` alone")
    tenants = models.ManyToManyField(Tenant, related_name="images")
    retired_at = models.DateTimeField(null=True)
    retired_reason = models.CharField(max_length=500, blank=True)
    generation = models.PositiveIntegerField(default=1)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["full_reference"],
                condition=models.Q(retired_at=None),
                name="image_once_in_the_catalogue",
            )
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("image", self.pk, self.slug)


class ImageRule(models.Model):
    """Which images may be used besides the catalogue: by one tenant, or (`PLATFORM_RULE`) by all others."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.OneToOneField(Tenant, null=True, on_delete=models.CASCADE, related_name="image_rule")
    allowed = models.CharField(max_length=16, choices=ImagesAllowed.choices(), default=ImagesAllowed.ANY)
    prefixes = models.JSONField(default=list, help_text="registries, or repositories in them")
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.allowed} for {self.tenant_id or 'all others'}"

    @property
    def audit_target(self) -> Target:
        """In the tenant's chain; the platform's where it is for all."""
        if self.tenant is None:
            return Target("image-rule", self.pk, "all")
        return Target("image-rule", self.pk, self.tenant.slug, self.tenant.slug)

    @property
    def limits(self) -> ImageLimits:
        """What it says."""
        return ImageLimits(ImagesAllowed(self.allowed), tuple(self.prefixes))
