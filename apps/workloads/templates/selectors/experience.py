"""What came of a template's workloads: how many, what they cost and what of that was waste. Reads only.

Metering writes the figures onto the workloads; of those that an actor sees, also of deleted ones.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from django.db.models import Count

from apps.accounts.specs import Actor
from apps.tenants.selectors import seen_by
from apps.workloads.models import Workload
from apps.workloads.template_models import Template

LATEST = 2000
"""Workloads that count for cost and waste: an old habit says little of today."""


@dataclass(frozen=True)
class Experience:
    """`median_cost` of those that held devices, `usual_waste` the median part of what was measured (0 to 1);
    None: nothing is known yet.
    """

    workloads: int = 0
    median_cost: Decimal | None = None
    usual_waste: float | None = None

    @property
    def waste_percent(self) -> int | None:
        """As pages tell it."""
        return None if self.usual_waste is None else round(100 * self.usual_waste)


def experience_of(actor: Actor, templates: Iterable[Template]) -> dict[str, Experience]:
    """By slug; the same two statements for one template and for all."""
    slugs = [each.slug for each in templates]
    made = Workload.objects.filter(template__in=slugs, tenant__in=seen_by(actor))
    counts = dict(made.order_by().values_list("template").annotate(Count("pk")))
    costs, wastes = defaultdict(list), defaultdict(list)
    figures = ("template", "cost_allocated", "cost_refunded", "cost_effective", "cost_waste")
    rows = made.filter(cost_allocated__gt=0).order_by("-created_at").values_list(*figures)[:LATEST]
    for slug, allocated, refunded, effective, waste in rows:
        costs[slug].append(allocated - refunded)
        if effective is not None and waste is not None and effective + waste > 0:
            wastes[slug].append(float(waste / (effective + waste)))
    return {
        slug: Experience(
            counts.get(slug, 0),
            median(costs[slug]) if costs[slug] else None,
            round(median(wastes[slug]), 4) if wastes[slug] else None,
        )
        for slug in slugs
    }
