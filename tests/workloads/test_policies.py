"""Who keeps what belongs to the whole installation."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from apps.accounts.specs import Actor, PlatformRole
from apps.workloads import policies

ENGINEER = Actor("petra", platform_role=PlatformRole.PLATFORM)


@pytest.mark.parametrize("may", [policies.can_manage_images, policies.can_manage_templates])
def test_a_catalogue_is_kept_by_engineers_and_by_no_token_that_is_cut_to_some_tenants(
    may: Callable[[Actor], bool],
) -> None:
    assert may(ENGINEER)
    assert not may(replace(ENGINEER, tenants=frozenset({"vision"})))
    assert not may(replace(ENGINEER, platform_role=PlatformRole.AUDITOR))
