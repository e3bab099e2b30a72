"""The same rows as a tutorial of DRF would show them: a token, a queryset, a ModelSerializer, nothing else.

No roles, limits, queue, countdown or prices in force: what the product does beyond this is what its factor
over this pays for.
"""

from typing import Any

from django.db.models import QuerySet
from django.urls import path
from rest_framework import generics, serializers
from rest_framework.authentication import TokenAuthentication

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import digest
from apps.quotas.models import Offer, Price
from apps.tenants.models import Membership
from apps.workloads.models import Workload


class BareToken(TokenAuthentication):
    """DRF's own, over our table of tokens."""

    keyword = "Bearer"

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        """See DRF."""
        token = ApiToken.objects.select_related("user").get(digest=digest(key))
        return token.user, token


class _Membership(serializers.ModelSerializer[Membership]):
    tenant = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)

    class Meta:
        model = Membership
        fields = ("tenant", "role")


class _User(serializers.ModelSerializer[User]):
    memberships = _Membership(many=True)

    class Meta:
        model = User
        fields = ("username", "platform_role", "memberships")


class _Price(serializers.ModelSerializer[Price]):
    class Meta:
        model = Price
        fields = "__all__"


class _Offer(serializers.ModelSerializer[Offer]):
    flavor = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    prices = _Price(many=True)

    class Meta:
        model = Offer
        fields = "__all__"


class _Workload(serializers.ModelSerializer[Workload]):
    tenant = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    owner = serializers.SlugRelatedField[Any](slug_field="username", read_only=True)
    offer = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)

    class Meta:
        model = Workload
        fields = "__all__"


class Me(generics.RetrieveAPIView[User]):
    """Oneself."""

    authentication_classes = (BareToken,)
    serializer_class = _User

    def get_object(self) -> User:
        """See DRF."""
        found = User.objects.prefetch_related("memberships__tenant")
        return found.get(username=self.request.user.get_username())


class Offers(generics.ListAPIView[Offer]):
    """Every offer with its prices."""

    authentication_classes = (BareToken,)
    serializer_class = _Offer
    queryset = Offer.objects.filter(deleted_at=None).select_related("flavor").prefetch_related("prices")


class Workloads(generics.ListAPIView[Workload]):
    """The newest 50 of the caller's tenants."""

    authentication_classes = (BareToken,)
    serializer_class = _Workload

    def get_queryset(self) -> QuerySet[Workload]:
        """See DRF."""
        mine = Workload.objects.filter(
            deleted_at=None, tenant__memberships__user__username=self.request.user.get_username()
        )
        return mine.select_related("tenant", "owner", "offer").order_by("-created_at")[:50]


urlpatterns = [
    path("api/v1/me", Me.as_view()),
    path("api/v1/offers", Offers.as_view()),
    path("api/v1/workloads", Workloads.as_view()),
]
