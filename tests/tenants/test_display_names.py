"""No tenant, department or service account passes for another by letters of another script."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from apps.errors import Invalid
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.people.services import service_accounts
from apps.tenants.people.services.service_accounts import AccountWish
from apps.tenants.specs import TrustLevel
from tests.conftest import Cast, as_actor

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LATIN, CYRILLIC, MIXED = "Cacao", "Сасао", "Caсao"
Make = Callable[[Cast, str, str], None]


def tenant(cast: Cast, slug: str, name: str) -> None:
    department = cast.vision.department
    tenancy.create_tenant(
        actor=as_actor(cast.petra), slug=slug, name=name, department=department,
        trust_level=TrustLevel.STANDARD, now=timezone.now(),
    )  # fmt: skip


def renamed_tenant(cast: Cast, _slug: str, name: str) -> None:
    row = cast.speech if name == LATIN else cast.vision
    tenancy.update_tenant(
        actor=as_actor(cast.petra), tenant=row, change=TenantChange(name=name), now=timezone.now()
    )


def department(cast: Cast, slug: str, name: str) -> None:
    cluster = cast.vision.cluster
    tenancy.create_department(
        actor=as_actor(cast.petra), slug=slug, name=name, cluster=cluster, now=timezone.now()
    )


def renamed_department(cast: Cast, slug: str, name: str) -> None:
    row = cast.vision.department if name == LATIN else cast.genomics.department
    tenancy.rename_department(actor=as_actor(cast.petra), department=row, name=name, now=timezone.now())


def account(cast: Cast, slug: str, name: str) -> None:
    wish = AccountWish(cast.vision, slug, name, "member")
    service_accounts.create_account(actor=as_actor(cast.petra), wish=wish, now=timezone.now())


MAKING: list[Make] = [tenant, renamed_tenant, department, renamed_department, account]


@pytest.mark.parametrize("make", MAKING)
def test_a_name_that_looks_like_another_is_refused_by_that_ones_name(cast: Cast, make: Make) -> None:
    make(cast, "one", LATIN)
    with pytest.raises(Invalid, match=f"resembles {LATIN}"):
        make(cast, "two", CYRILLIC)
    with pytest.raises(Invalid, match="mixes Latin and Cyrillic letters"):
        make(cast, "two", MIXED)
    make(cast, "two", "β-lab Вектор")


def test_the_same_name_is_anothers_too_and_its_own_look_alike_gives_way(cast: Cast) -> None:
    tenant(cast, "one", CYRILLIC)
    tenant(cast, "two", CYRILLIC)
    with pytest.raises(Invalid, match=f"resembles {CYRILLIC}"):
        renamed_tenant(cast, "", LATIN)
