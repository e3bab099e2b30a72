"""Whether what is asked for goes with an offer of devices, or with one of cores. Reads only."""

from datetime import datetime

from apps.cluster.objects.quantities import format_bytes
from apps.errors import FieldProblem, Invalid
from apps.quotas.allowances.selectors import standing
from apps.quotas.models import Offer
from apps.quotas.specs import CORE_MILLIS
from apps.tenants.models import Tenant
from apps.workloads.cores_specs import sized
from apps.workloads.spec.parsing import MOST_BYTES, MOST_CPU_MILLIS
from apps.workloads.specs import WorkloadSpec


def require_amounts(tenant: Tenant, spec: WorkloadSpec, offer: Offer, *, now: datetime) -> None:
    """RULE: an offer of devices needs at least one; one of cores none (what says nothing means none there),
    whole cores, and no more memory than comes with them, so that quota, price and what Kueue counts are one
    number. Raises Invalid.
    """
    problems = _of_cores(spec, offer) if offer.is_cores else _of_devices(tenant, spec, offer, now)
    if problems:
        raise Invalid(problems)


def _of_devices(tenant: Tenant, spec: WorkloadSpec, offer: Offer, now: datetime) -> list[FieldProblem]:
    if spec.count:
        return []
    choices = standing.offer_choices(tenant, now=now)
    bare = [choice.offer.slug for choice in choices if choice.allowed and choice.offer.is_cores]
    words = f"{offer.name} is a GPU: ask for at least 1 device"
    instead = f", or for work without a GPU take the offer {bare[0]}." if bare else "."
    return [FieldProblem("/spec/count", "out_of_range", f"{words}{instead}")]


def _of_cores(spec: WorkloadSpec, offer: Offer) -> list[FieldProblem]:
    problems = []
    if spec.count > 1:
        words = f"{offer.name} has no GPU: ask for 0 devices, and for CPU and memory."
        problems.append(FieldProblem("/spec/count", "out_of_range", words))
    if spec.cpu_millis % CORE_MILLIS:
        words = f"CPU is sold by the core: ask for {-(-spec.cpu_millis // CORE_MILLIS)}."
        return [*problems, FieldProblem("/spec/cpu", "invalid_value", words)]
    cpu, memory = sized(spec.cpu_millis, spec.memory_bytes, per_core=offer.memory_bytes)
    count, most = cpu // CORE_MILLIS, cpu // CORE_MILLIS * offer.memory_bytes
    if cpu > MOST_CPU_MILLIS or memory > MOST_BYTES:
        words = f"That is {count} cores: a pod has at most {MOST_CPU_MILLIS // CORE_MILLIS}."
        return [FieldProblem("/spec/memory", "out_of_range", words)]
    if spec.memory_bytes > most:
        needed = -(-spec.memory_bytes // offer.memory_bytes)
        words = (
            f"{format_bytes(offer.memory_bytes)} come with a core, so {format_bytes(most)} with "
            f"{count}: ask for {needed} cores, or for less memory."
        )
        problems.append(FieldProblem("/spec/memory", "out_of_range", words))
    return problems
