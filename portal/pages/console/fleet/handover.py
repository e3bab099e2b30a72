"""Handing a node over, in two steps: choose, then see what it means for the work there and confirm."""

from typing import Any

from django import forms
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.mirror.selectors.inventory import ShownNode
from apps.errors import NotFound
from apps.tenants.models import Tenant
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.selectors import tenants_for
from apps.tenants.specs import Isolation
from apps.workloads.nodes.selectors import node_usage
from apps.workloads.nodes.services import node_drain

NOTICES = ((0, "at once"), (900, "15 minutes"), (3600, "1 hour"), (14400, "4 hours"), (86400, "1 day"))
POSTURES = {
    "shared": "Serves every tenant",
    "dedicated": "Serves one tenant alone",
    "clearing": "Being cleared for one tenant",
    "releasing": "Being given back to every tenant",
}


class HandoverForm(forms.Form):
    """To whom, after which notice, and why; an empty tenant gives the node back."""

    tenant = forms.ChoiceField(label="Serves", required=False)
    notice = forms.TypedChoiceField(
        label="Notice", coerce=int, choices=NOTICES, initial=3600,
        help_text="Work that has to leave is asked to stop this long from now.",
    )  # fmt: skip
    reason = forms.CharField(label="Reason", required=False, max_length=500, help_text="Shown to its people.")

    def __init__(self, data: Any, *, tenants: list[Tenant]) -> None:
        super().__init__(data)
        own = [(tenant.slug, f"{tenant.name} alone") for tenant in tenants]
        self.fields["tenant"].choices = [("", "every tenant (give it back)"), *own]  # type: ignore[attr-defined]

    @property
    def handover(self) -> Handover:
        """What was chosen."""
        return node_usage.handover(seconds=self.cleaned_data["notice"], reason=self.cleaned_data["reason"])


def node_of(actor: Actor, name: str) -> ShownNode:
    """The node, for platform engineers; for everybody else there is no such page."""
    found = [node for node in clusters.nodes_for(actor) if node.view.name == name and actor.is_platform]
    if not found:
        raise NotFound
    return found[0]


def form_for(actor: Actor, node: ShownNode, data: Any) -> HandoverForm:
    """The form with the tenants that may have nodes on this cluster."""
    may = tenants_for(actor).filter(
        cluster=node.cluster, isolation=Isolation.DEDICATED_NODES, deleting_at=None
    )
    return HandoverForm(data, tenants=list(may.order_by("name")))


def page(actor: Actor, node: ShownNode, form: HandoverForm) -> dict[str, Any]:
    """The choice and, once it is made, what it would do."""
    use = node_usage.uses_of([node])[node.uid]
    shown: dict[str, Any] = {
        "node": node.view.name,
        "use": use,
        "posture": POSTURES[use.posture],
        "form": form,
    }
    if form.is_bound and form.is_valid():
        tenant = _tenant(actor, form)
        seen = node_drain.preview(
            node.cluster, node.view.name, keeps=tenant, handover=form.handover, now=timezone.now()
        )
        shown |= {"effect": node_drain.words(seen), "to": tenant, "chosen": True}
    return shown


def act(actor: Actor, node: ShownNode, form: HandoverForm) -> str:
    """Do it; answers what to tell."""
    tenant, now = _tenant(actor, form), timezone.now()
    if tenant is None:
        row = node_usage.live(node.cluster, node.view.name)
        node_drain.release(actor=actor, assignment=row, handover=form.handover, now=now)
        return f"{node.view.name} goes back to every tenant, asked {now:%H:%M}."
    node_drain.assign(actor=actor, tenant=tenant, node=node.view.name, handover=form.handover, now=now)
    return f"{node.view.name} goes to {tenant.name}, asked {now:%H:%M}."


def _tenant(actor: Actor, form: HandoverForm) -> Tenant | None:
    slug = form.cleaned_data["tenant"]
    return tenants_for(actor).get(slug=slug) if slug else None
