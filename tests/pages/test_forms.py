"""Fields of forms that several pages share."""

import pytest
from django import forms

from apps.workloads.models import Workload
from portal.pages.parts.forms import MomentField
from tests.conftest import SignedIn
from tests.pages.conftest import Scene


@pytest.mark.parametrize(
    "typed", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59", "soon"]
)
def test_a_time_that_no_calendar_of_ours_has_is_refused(typed: str) -> None:
    with pytest.raises(forms.ValidationError):
        MomentField().clean(typed)


def test_a_time_is_utc_and_a_zone_that_is_written_counts() -> None:
    for typed in ("2026-11-27T09:00", "2026-11-27T10:00:00+01:00"):
        assert str(MomentField().clean(typed)) == "2026-11-27 09:00:00+00:00"


@pytest.mark.django_db
@pytest.mark.parametrize("far", ["since=0001-01-01T00:00:00%2B14:00", "until=9999-12-31T23:59:59-14:00"])
def test_the_audit_record_is_not_asked_for_such_a_time(scene: Scene, signed_in: SignedIn, far: str) -> None:
    assert signed_in(scene.cast.petra).get(f"/console/audit/?{far}").status_code == 200


@pytest.mark.django_db
def test_a_name_is_as_long_as_its_column_at_most(scene: Scene, signed_in: SignedIn) -> None:
    rosa, longest = signed_in(scene.cast.rosa), Workload._meta.get_field("name").max_length
    asked = {"kind": "notebook", "offer": "h100-1g-10gb", "image": "jupyter/pytorch:1", "name": "n" * 121}
    answer = rosa.post("/t/vision/workloads/", asked)
    assert answer.status_code == 422
    assert f"at most {longest} characters" in answer.content.decode()
