"""The disks that deleted workloads left: what they are, and the two ways out."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.tenants.selectors import tenant_for
from apps.workloads import policies
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.selectors import kept_disks
from apps.workloads.lifecycle.services import keeping
from portal.pages.parts import confirm
from portal.pages.parts.answers import done
from portal.pages.parts.htmx import render_page
from portal.pages.team.workloads import workload_detail


@require_safe
def disks_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """Every kept disk of the team with size, age and price."""
    actor, now = actor_of(request), timezone.now()
    row = tenant_for(actor, tenant)
    found = [
        (disk, policies.can_operate(actor, disk.workload)) for disk in kept_disks.disks(actor, row, now=now)
    ]
    size = sum(disk.size_bytes for disk, _ in found)
    return render_page(request, "team/workloads/disks.html", {"tenant": row, "disks": found, "size": size})


@require_POST
def reattach(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Run the workload again with what it left."""
    actor = actor_of(request)
    row = kept_disks.kept_for(actor, tenant_for(actor, tenant), workload)
    again = keeping.reattach(actor=actor, workload=row, now=timezone.now())
    return done(request, f"{again.name} starts again with its disks.", workload_detail.url(again))


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What is lost for good; a POST deletes."""
    actor, now = actor_of(request), timezone.now()
    team = tenant_for(actor, tenant)
    row = kept_disks.kept_for(actor, team, workload)
    here = reverse("disks", args=[team.slug])
    if request.method == "POST":
        keeping.delete_disks(actor=actor, workload=row, now=now)
        return done(request, f"The disks of {row.name} go, asked {now:%H:%M}.", here)
    writing.require_operate(actor, row)
    names = ", ".join(disk.name for disk in kept_disks.disks(actor, team, now=now) if disk.workload == row)
    lost = (f"{names} and all that is on it is lost. This cannot be undone.",)
    return confirm.page(request, confirm.Question(f"Delete the disks of {row.name}?", lost, "Delete", here))
