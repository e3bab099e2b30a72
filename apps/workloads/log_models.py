"""The logs of runs that are over, as tables. `apps.workloads.models` registers them.

RULE: only the page and the answer of one log read them; no list and no reconcile of what runs does.
"""

from django.db import models

from apps.tenants.models import Tenant


class KeptLog(models.Model):
    """The end of one container's log. RULE: a container of a pod is read once, whoever asks again."""

    workload = models.ForeignKey("workloads.Workload", on_delete=models.CASCADE, related_name="kept_logs")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    pod = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    container = models.CharField(max_length=63)
    place = models.PositiveSmallIntegerField(help_text="among those of its run; 0: the usual one")
    size = models.PositiveIntegerField(help_text="in bytes, as it was written")
    stored_size = models.PositiveIntegerField(help_text="in bytes, as it is kept")
    is_cut = models.BooleanField(help_text="there were lines before these")
    kept_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload", "pod_uid", "container"], name="kept_log_once_per_container"
            )
        ]
        indexes = [
            models.Index(fields=["tenant", "-kept_at"], name="kept_log_by_tenant"),
            models.Index(fields=["kept_at"], name="kept_log_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.container} of {self.pod}"


class LogPiece(models.Model):
    """Whole lines of a kept log, compressed with zlib."""

    log = models.ForeignKey(KeptLog, on_delete=models.CASCADE, related_name="pieces")
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["log", "number"], name="log_piece_once_by_number")]

    def __str__(self) -> str:
        return f"{self.number} of {self.log_id}"
