"""?wait= answers when done, at the latest then."""

import time

import pytest
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from apps.web.problems.refusals import BadParameter
from portal.api.base.waiting import wait_for

pytestmark = pytest.mark.django_db
"""Who waits gives its connection to the database back meanwhile."""


def asking(query: str) -> Request:
    return Request(APIRequestFactory().get(f"/x?{query}"))


def test_it_answers_as_soon_as_the_thing_is_done() -> None:
    states = iter(["Pending", "Pending", "Running"])
    assert wait_for(asking("wait=10"), lambda: next(states), lambda state: state == "Running") == "Running"
    assert list(states) == []


def test_it_gives_up_after_the_asked_time() -> None:
    started = time.monotonic()
    assert wait_for(asking("wait=1"), lambda: "Pending", lambda _: False) == "Pending"
    assert time.monotonic() - started >= 1


def test_without_wait_it_reads_once() -> None:
    states = iter(["Pending"])
    assert wait_for(asking(""), lambda: next(states), lambda _: False) == "Pending"


@pytest.mark.parametrize("wait", ["61", "-1", "1.5", "soon"])
def test_other_times_are_refused(wait: str) -> None:
    with pytest.raises(BadParameter):
        wait_for(asking(f"wait={wait}"), lambda: None, lambda _: True)
