"""Raw samples summed by one statement: what every roll-up is compared with."""

from datetime import datetime
from typing import Any

FIGURES = {
    "us": "sum(us)", "smi": "sum(us * smi * 10000)", "sm": "sum(us * sm_active)",
    "tensor": "sum(us * tensor_active)", "dram": "sum(us * dram_active)", "effective": "sum(us * work)",
    "idle": "coalesce(sum(us * (1000000 - work)) FILTER (WHERE work < 20000), 0)",
    "partly": "coalesce(sum(us * (1000000 - work)) FILTER (WHERE work >= 20000), 0)",
    "sm_max": "max(sm_active)",
}  # fmt: skip
_STATEMENT = f"""
SELECT t.slug, {", ".join(f"{sql} AS {name}" for name, sql in FIGURES.items())}
FROM (
    SELECT a.workload_id, s.smi::int8, s.sm_active::int8, s.tensor_active::int8, s.dram_active::int8,
        greatest(s.sm_active, s.dram_active)::int8 AS work,
        (extract(epoch FROM least(s.ts, coalesce(a.ended_at, %(ends)s))
            - greatest(s.ts - interval '30 s', a.started_at)) * 1000000)::int8 AS us
    FROM metering_sample s
    JOIN metering_device d ON d.id = s.device_id
    JOIN metering_allocation a ON a.gpu = d.uuid AND s.ts > a.started_at
        AND s.ts - interval '30 s' < coalesce(a.ended_at, %(ends)s)
    WHERE d.cluster_id = %(cluster)s AND s.ts > %(begins)s AND s.ts <= %(ends)s
) seen
JOIN workloads_workload w ON w.id = seen.workload_id
JOIN tenants_tenant t ON t.id = w.tenant_id
GROUP BY t.slug
"""  # noqa: S608 - our own columns


def raw_sums(cluster: Any, begins: datetime, ends: datetime) -> dict[str, dict[str, int]]:
    """By tenant: µs seen, and µs x millionths of each figure, over the samples of (begins, ends].

    A week of 50 GPUs is more than 64 bits hold.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, {"cluster": cluster.pk, "begins": begins, "ends": ends})
        return {
            slug: dict(zip(FIGURES, map(int, values), strict=True)) for slug, *values in cursor.fetchall()
        }
