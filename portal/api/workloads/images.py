"""REST for the catalogue of images, and for the rules on images that are not in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor, ScopeGroup
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.workloads.images.selectors import catalogue
from apps.workloads.images.services import keeping
from apps.workloads.images.services.keeping import ImageWish
from apps.workloads.models import Image
from apps.workloads.specs import ImageLimits
from portal.api.base import references
from portal.api.base.documents import DocumentView, ObjectView, VerbView, acts, documents
from portal.api.base.references import TENANT
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, idempotent, paginate_whole
from portal.api.base.writing import as_sent, made, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.workloads.images_bodies import (
    ImageBody,
    ImageDocumentSerializer,
    ImageRuleBody,
    ImageRuleSerializer,
    NewImageSerializer,
    TenantImageRuleSerializer,
    image_body,
    limits_body,
    limits_in,
    wish_of,
)

Body = Mapping[str, Any]


class ImagesView(ApiView):
    """The images that the caller's tenants may use; all for platform and auditors."""

    scope_group = ScopeGroup.CATALOG
    lists = True
    parameters = (TENANT,)

    @pages(ImageBody)
    def get(self, request: Request) -> Response:
        """With `?tenant=`: only those that it may use."""
        tenant = references.asked_tenant(self, request)
        rows = catalogue.images_for(self.actor) if tenant is None else catalogue.usable_by(tenant)
        return paginate_whole(request, rows, lambda found: _bodies(self.actor, found))

    @takes(NewImageSerializer)
    @answers(201, ImageBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """List an image; its registry is not asked."""

        def make() -> Image:
            keeping.require_keeper(self.actor)
            wish = _wish(self.actor, NewImageSerializer.checked(request.data))
            return keeping.add_image(actor=self.actor, wish=wish, now=timezone.now())

        def answer(row: Image) -> Response:
            return made(_bodies(self.actor, [row])[0], f"/api/v1/images/{row.slug}", row)

        return idempotent(request, lambda: written(request, make, answer))


class _Kept(ObjectView[Image]):
    """What every view of one image shares."""

    scope_group = ScopeGroup.CATALOG
    find = staticmethod(catalogue.image_for)

    def require(self, row: Image) -> None:  # noqa: ARG002 - the same for every image
        """As the service."""
        keeping.require_keeper(self.actor)

    def shown(self, row: Image) -> ImageBody:
        """With how many workloads have it."""
        return _bodies(self.actor, [row])[0]


@documents(
    ImageDocumentSerializer,
    ImageBody,
    get="By slug or id.",
    put="Replace all but the slug; running work is left alone.",
    patch="Merge (RFC 7396).",
    refusals=("already_exists",),
)
class ImageView(_Kept, DocumentView[Image]):
    """One image."""

    matched_methods = ("PUT", "PATCH")

    def change(self, row: Image, asked: Body) -> Image:
        """Another entry in its place."""
        wish = _wish(self.actor, asked)
        return keeping.update_image(actor=self.actor, image=row, wish=wish, now=timezone.now())


@acts(ImageBody, post="Take it out of what can be chosen; what has it runs on and may start again.")
class RetireView(_Kept, VerbView[Image]):
    """Retires an image."""

    def act(self, row: Image, asked: Body) -> Image:
        """With the reason that people are told."""
        return keeping.retire_image(actor=self.actor, image=row, reason=asked["reason"], now=timezone.now())


@acts(ImageBody, "already_exists", post="Let a retired image be chosen again.")
class RestoreView(_Kept, VerbView[Image]):
    """Takes a retirement back."""

    takes = StrictSerializer

    def act(self, row: Image, asked: Body) -> Image:  # noqa: ARG002 - it takes none
        """As it was."""
        return keeping.restore_image(actor=self.actor, image=row, now=timezone.now())


class ImageRuleView(ApiView):
    """The rule that counts for every tenant without one of its own."""

    scope_group = ScopeGroup.CATALOG

    @answers(200, ImageRuleBody)
    def get(self, request: Request) -> Response:  # noqa: ARG002 - Django's signature
        """Which images may be used besides the catalogue."""
        return Response(_rule(None))

    @takes(ImageRuleSerializer)
    @answers(200, ImageRuleBody)
    def put(self, request: Request) -> Response:
        """Set it. What runs is left alone, and may start again. No If-Match."""

        def write() -> None:
            keeping.require_keeper(self.actor)
            context = {"current": as_sent(_rule(None))}
            limits = limits_in(ImageRuleSerializer.checked(request.data, context=context)["spec"])
            keeping.set_limits(actor=self.actor, tenant=None, limits=limits, now=timezone.now())

        return written(request, write, lambda _: Response(_rule(None)))


@documents(
    TenantImageRuleSerializer,
    ImageRuleBody,
    get="Its own rule, and which counts.",
    put="Set its own rule; null takes it away. What runs is left alone, and may start again.",
)
class TenantImageRuleView(DocumentView[Tenant]):
    """A tenant's own rule on images that are not in the catalogue."""

    scope_group = ScopeGroup.CATALOG
    matched_methods = ()
    find = staticmethod(tenancy.tenant_for)

    def require(self, row: Tenant) -> None:  # noqa: ARG002 - the same for every tenant
        """As the service."""
        keeping.require_keeper(self.actor)

    def shown(self, row: Tenant) -> ImageRuleBody:
        """The same for everybody."""
        return _rule(row)

    def change(self, row: Tenant, asked: Body) -> Tenant:
        """Another rule, or none."""
        limits = limits_in(asked["spec"])
        keeping.set_limits(actor=self.actor, tenant=row, limits=limits, now=timezone.now())
        return row


def _rule(tenant: Tenant | None) -> ImageRuleBody:
    rules = catalogue.rules(tenant)
    counts = rules[0].limits if rules else ImageLimits()
    own = next((rule.limits for rule in rules if tenant and rule.tenant_id == tenant.pk), None)
    own = own if tenant else counts
    return {
        "object": "image-rule",
        "tenant": tenant.slug if tenant else None,
        "spec": limits_body(own) if own else None,
        "status": limits_body(counts),
    }


def _bodies(actor: Actor, rows: Sequence[Image]) -> list[ImageBody]:
    """Read together: as many statements for one image as for all."""
    named, counts = catalogue.tenants_of(rows), catalogue.users_of(actor, rows)
    slugs = {tenant.slug for tenants in named.values() for tenant in tenants}
    seen = tenancy.seen_among(actor, slugs) if slugs else set()
    return [
        image_body(row, [t.slug for t in named[row.pk] if t.slug in seen], counts[row.pk]) for row in rows
    ]


def _wish(actor: Actor, asked: Body) -> ImageWish:
    def find(place: int, key: str) -> Tenant:
        return references.found(f"/spec/tenants/{place}", lambda: tenancy.tenant_for(actor, key))

    return wish_of(asked, find)
