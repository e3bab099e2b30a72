"""Clusters, the mirror of what they hold, and the columns every reconciled row shares."""

import uuid

from django.db import models

from apps.audit.specs import Target
from apps.cluster.specs import ObjectRef
from apps.rows import Row


class Cluster(Row):
    """A registered Kubernetes cluster, reached by its operator's kubeconfig file or by one registered over
    REST.
    """

    class Phase(models.TextChoices):
        UNKNOWN = "Unknown", "Unknown"
        READY = "Ready", "Answers"
        SILENT = "Silent", "Silent"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    kubeconfig_path = models.CharField(
        max_length=500, blank=True, help_text="a file on the workers; set by the operator only"
    )
    kubeconfig_sealed = models.TextField(
        blank=True, help_text="inline data only, sealed; used where no file is named"
    )
    generation = models.PositiveIntegerField(default=1)
    phase = models.CharField(max_length=16, choices=Phase.choices, default=Phase.UNKNOWN)
    message = models.TextField(blank=True, help_text="why it is silent, in words")
    version = models.CharField(max_length=32, blank=True)
    is_simulated = models.BooleanField(default=False)
    capabilities = models.JSONField(default=list, help_text="[{name, available, version, message}]")
    last_seen_at = models.DateTimeField(null=True, help_text="the last answer of any watch or call")
    silent_since = models.DateTimeField(null=True)
    held_since = models.DateTimeField(
        null=True, help_text="nothing is written to it since then: its database came out of a backup"
    )
    identity = models.CharField(
        max_length=64,
        blank=True,
        help_text="uid of kube-system: another one is another cluster at the same address",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("cluster", self.pk, self.slug)


class Reconciled(Row):
    """The columns that all reconciled rows share.

    `generation` counts what people changed, `observed_generation` what the cluster was brought to: rows where
    they differ, and rows whose `due_at` has passed, are found by the sweep, so no message is ever needed.
    `lease_owner`, `lease_until` and `fence` are written by `services.lease` alone, by database time. `traces`
    is `services.traced`'s, and empty unless requests are traced.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    generation = models.PositiveIntegerField(default=1)
    observed_generation = models.PositiveIntegerField(default=0)
    conditions = models.JSONField(default=list)
    due_at = models.DateTimeField(null=True, db_index=True)
    attempts = models.PositiveIntegerField(
        default=0, help_text="failures in a row; the back-off grows with them"
    )
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    deleting_at = models.DateTimeField(null=True, help_text="when its removal was asked for")
    deleted_at = models.DateTimeField(null=True, help_text="when nothing of it was left in the cluster")
    traces = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        help_text="generations with the traceparent of the requests that asked for them, the newest first",
    )

    class Meta:
        abstract = True


OF_THE_RECONCILE = ("attempts", "due_at", "fence", "lease_owner", "lease_until", "traces")
"""Columns of `Reconciled` that no list shows."""


class MirrorObject(Row):
    """One object of a cluster as last seen: what web and workers read instead of the API server.

    `sent_hash`: the manifest we last applied. `applied_hash`: the fields our field manager owned in the
    answer to that apply. `live_hash`: the same of the newest version seen. Unchanged means all three say so
    (no call); `live_hash != applied_hash` is drift.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=48)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    resource_version = models.BigIntegerField(default=0)
    owner_kind = models.CharField(
        max_length=32, blank=True, help_text="label allotment.dev/owner, or its parent's"
    )
    owner_id = models.CharField(
        max_length=64, blank=True, help_text="label allotment.dev/uid, or its parent's"
    )
    controller_uid = models.CharField(
        max_length=64, blank=True, help_text="uid of its controller, or an Event's object"
    )
    generation = models.PositiveIntegerField(default=0, help_text="annotation allotment.dev/generation")
    is_managed = models.BooleanField(default=False, help_text="carries our managed-by label")
    deleting = models.BooleanField(default=False, help_text="has a deletionTimestamp")
    body = models.JSONField(default=dict, help_text="the trimmed object")
    queue_state = models.CharField(
        max_length=8, blank=True, help_text="of a Kueue Workload: waits, holds or held; empty: none of them"
    )
    queue_rank = models.CharField(max_length=96, blank=True, help_text="sorts a queue: the next one first")
    queue_asks = models.CharField(
        max_length=256, blank=True, help_text="resource names of the devices that it asks for"
    )
    sent_hash = models.CharField(max_length=64, blank=True)
    applied_hash = models.CharField(max_length=64, blank=True)
    live_hash = models.CharField(max_length=64, blank=True)
    forced_at = models.JSONField(
        default=list, help_text="when we lately took fields back from another manager"
    )
    created_at = models.DateTimeField(null=True, help_text="metadata.creationTimestamp")
    seen_at = models.DateTimeField(auto_now=True)
    gone_at = models.DateTimeField(null=True, help_text="when its deletion was seen; kept a day for metering")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "namespace", "name"], name="mirror_one_row_per_object"
            )
        ]
        indexes = [
            models.Index(fields=["owner_id", "kind"], name="mirror_by_owner"),
            # With the cluster: SQLite has no statistics and would otherwise read all rows of a cluster.
            models.Index(fields=["cluster", "controller_uid"], name="mirror_by_controller"),
            models.Index(fields=["cluster", "uid"], name="mirror_by_uid"),
            models.Index(fields=["cluster", "kind", "gone_at"], name="mirror_by_kind"),
            # With the uid: what metering asks of thousands of tombstones is answered without their bodies.
            models.Index(
                fields=["cluster", "kind", "gone_at", "uid"],
                condition=models.Q(gone_at__isnull=False),
                name="mirror_gone",
            ),
            models.Index(
                fields=["cluster", "queue_state", "namespace", "gone_at", "queue_asks", "queue_rank"],
                name="mirror_by_place",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def ref(self) -> ObjectRef:
        """What it is called in its cluster."""
        return ObjectRef(self.kind, self.namespace, self.name)


class WatchPosition(models.Model):
    """Where the watch of one kind stands, so that a restarted watcher resumes instead of listing again."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=48)
    resource_version = models.CharField(max_length=32, blank=True)
    listed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "kind"], name="watch_one_position_per_kind")
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.kind}"


class Leadership(models.Model):
    """Who does what only one process may do at a time (`leading`); judged by the database's clock alone."""

    name = models.CharField(primary_key=True, max_length=80, help_text="clock, or watcher:<id of a cluster>")
    holder = models.CharField(max_length=120, blank=True)
    term = models.PositiveBigIntegerField(default=0, help_text="how often it went to another")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} {self.holder}"


class Drift(models.Model):
    """An object that we apply and that somebody changed or removed by hand, until it is as we want it again
    and for a while after. One row of an object is open at a time.

    `fields` are `reconciling.rules.drift.FieldDrift`, `more_fields` those beyond. Written by
    `reconciling.services.drift_book` alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=48)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    owner_kind = models.CharField(max_length=32)
    owner_id = models.CharField(max_length=64)
    tenant = models.CharField(max_length=40, blank=True, help_text="slug; empty: of no tenant")
    how = models.CharField(max_length=16)
    fields = models.JSONField(default=list)
    more_fields = models.PositiveIntegerField(default=0)
    message = models.TextField(blank=True, help_text="why it is not put back, in the cluster's words")
    times = models.PositiveIntegerField(default=1, help_text="how often it was changed so")
    found_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="when it was last compared")
    healed_at = models.DateTimeField(null=True)
    asked_by = models.CharField(max_length=150, blank=True, help_text="who asked for the repair")
    asked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "namespace", "name"],
                condition=models.Q(healed_at=None),
                name="drift_one_open_per_object",
            )
        ]
        indexes = [
            models.Index(fields=["cluster", "kind", "namespace", "name"], name="drift_by_object"),
            models.Index(fields=["healed_at"], name="drift_by_end"),
            models.Index(fields=["found_at"], name="drift_by_time"),
        ]

    def __str__(self) -> str:
        return str(self.ref)

    @property
    def ref(self) -> ObjectRef:
        """What it is called in its cluster."""
        return ObjectRef(self.kind, self.namespace, self.name)

    @property
    def audit_target(self) -> Target:
        """In the tenant's chain, if it is of one."""
        return Target("drift", self.pk, str(self)[:255], self.tenant)


class DriftCheck(models.Model):
    """The last comparison of a whole cluster, and whether another was asked for."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, primary_key=True, related_name="+")
    asked_at = models.DateTimeField(null=True, help_text="null: nobody waits for one")
    asked_by = models.CharField(max_length=150, blank=True)
    begun_at = models.DateTimeField(null=True, help_text="of the one that runs; null: none does")
    tried_at = models.DateTimeField(null=True, help_text="when the last began")
    ended_at = models.DateTimeField(null=True, help_text="of the last that was whole")
    done = models.PositiveSmallIntegerField(default=0, help_text="kinds that were looked at")
    of = models.PositiveSmallIntegerField(default=0, help_text="kinds to look at")
    objects_seen = models.PositiveIntegerField(default=0)
    message = models.TextField(blank=True, help_text="why the last was not whole")

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.ended_at}"
