"""The pages of a service: how it is called, its tokens, another version. Parse, call, present."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from apps.accounts.actors import actor_of
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import service_access
from apps.workloads.opening.services import service_tokens
from apps.workloads.opening.services.service_tokens import Made
from apps.workloads.selectors.reading import workload_for
from portal.pages.parts import confirm
from portal.pages.parts.answers import done, require_form
from portal.pages.parts.form_pages import Shown, form_page, secret_page
from portal.pages.team.services import service_form
from portal.pages.team.services.service_form import RotateForm, TokenForm, VersionForm
from portal.pages.team.workloads import workload_detail

TOKEN_PAGE = "team/services/token.html"  # noqa: S105 - the page's name


@require_form
def service_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """How it is called, and its tokens; a POST asks for another version or number of replicas."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    if request.method == "POST":
        writing.require_operate(actor, row)
    service_form.require_service(row)
    form = VersionForm(request.POST or None, row=row, initial=service_form.typed(row))

    def make() -> str:
        verbs.update_workload(actor=actor, workload=row, change=form.change, now=timezone.now())
        return service_form.url(row)

    return form_page(
        request,
        "team/services/page.html",
        lambda: service_form.page(actor, row),
        form=form,
        make=make,
        parts=frozenset({"replicas"}),
    )


@never_cache
@require_form
def new_token(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """A POST makes a token and shows its text once."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    service_access.require_tokens(actor, row)
    service_form.require_service(row)
    form = TokenForm(request.POST or None)

    def make() -> Shown:
        name = form.cleaned_data["name"]
        return _told(service_tokens.make_token(actor=actor, workload=row, name=name, now=timezone.now()))

    return secret_page(request, TOKEN_PAGE, lambda: _frame(row), form=form, make=make)


@never_cache
@require_form
def rotate_token(request: HttpRequest, tenant: str, workload: UUID, service_token: UUID) -> HttpResponse:
    """A POST gives it another text and shows that once."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    service_access.require_tokens(actor, row)
    token, form = service_access.token_of(row, service_token), RotateForm(request.POST or None)

    def make() -> Shown:
        kept = form.cleaned_data["keep_old_seconds"]
        found = service_tokens.rotate_token(
            actor=actor, workload=row, token=token.pk, keep_old_seconds=kept, now=timezone.now()
        )
        return _told(found)

    return secret_page(request, TOKEN_PAGE, lambda: _frame(row) | {"token": token}, form=form, make=make)


@require_form
def revoke_token(request: HttpRequest, tenant: str, workload: UUID, service_token: UUID) -> HttpResponse:
    """What revoking it means; a POST revokes it."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    writing.require_operate(actor, row)
    token, back = service_access.token_of(row, service_token), service_form.url(row)
    if request.method == "POST":
        service_tokens.revoke_token(actor=actor, workload=row, token=token.pk, now=timezone.now())
        return done(request, f"{token.name} opens nothing any more.", back)
    means = "Programs that call the service with it are refused from now on; what they are in ends too."
    return confirm.page(request, confirm.Question(f"Revoke {token.name}?", (means,), "Revoke", back))


def _frame(row: Workload) -> dict[str, object]:
    shown = {"address": service_form.address(row), "live_topics": [], "back": service_form.url(row)}
    return workload_detail.frame(row) | shown


def _told(made: Made) -> Shown:
    return {"made": made.token, "text": made.text}
