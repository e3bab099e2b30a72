"""The tokens of a service: who makes them, what they open, and when they end."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import actors
from apps.accounts.actors import Credential
from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.audit.models import AuditEvent
from apps.errors import Conflict, NotAllowed, NotFound
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import access, service_access
from apps.workloads.opening.services import service_tokens
from apps.workloads.specs import Phase
from tests.conftest import Cast, as_actor
from tests.factories import NOW, join, make_user
from tests.workloads.asking import change, submit
from tests.workloads.serving import asked, runs


def made(cast: Cast, row: Workload, who: Any, name: str = "ci") -> service_tokens.Made:
    return service_tokens.make_token(actor=as_actor(who), workload=row, name=name, now=NOW)


def test_only_who_keeps_it_and_opens_it_makes_its_tokens(cast: Cast) -> None:
    mate = make_user("mate")
    join(cast.vision, mate)
    row = runs(asked(cast))
    assert made(cast, row, cast.rosa).token.name == "ci"
    assert made(cast, row, cast.leon, "of-the-lead").token.name == "of-the-lead"
    for who in (mate, cast.petra, cast.ann):
        with pytest.raises(NotAllowed):
            made(cast, row, who, "no")
    alone = runs(asked(cast, slug="alone", service={"open_to": "owner"}))
    with pytest.raises(NotAllowed):
        made(cast, alone, cast.leon)
    notebook = submit(cast, slug="nb")
    with pytest.raises(Conflict):
        made(cast, notebook, cast.rosa)


def test_its_text_is_kept_nowhere_and_every_act_is_in_the_record(cast: Cast) -> None:
    row = runs(asked(cast))
    first = made(cast, row, cast.rosa)
    now = NOW + timedelta(minutes=1)
    given: dict[str, Any] = {"actor": as_actor(cast.rosa), "workload": row, "token": first.token.pk}
    second = service_tokens.rotate_token(**given, keep_old_seconds=60, now=NOW)
    for text, at, opens in (
        (first.text, NOW, True), (first.text, now, False), (second.text, now, True), ("alt_x", NOW, False),
    ):  # fmt: skip
        assert (service_access.opened_by(text, row.pk, at) is not None) is opens
    service_tokens.revoke_token(**given, now=now)
    assert service_access.opened_by(second.text, row.pk, now) is None
    with pytest.raises(NotFound):
        service_tokens.revoke_token(**given, now=now)
    record = list(AuditEvent.objects.filter(action__startswith="service-token.").order_by("sequence"))
    assert [event.action.partition(".")[2] for event in record] == ["make", "rotate", "revoke"]
    whole = str([event.__dict__ for event in record])
    assert first.text not in whole
    assert second.text not in whole


def test_what_an_api_token_makes_ends_with_it(cast: Cast) -> None:
    row = runs(asked(cast))
    api, _ = create_token(
        actor=as_actor(cast.rosa), name="ci", scopes=[], tenants=["vision"], expires_in_days=9,
        now=timezone.now(),
    )  # fmt: skip
    by_api = actors.again(Credential(cast.rosa.pk, token=api.pk))
    own, others = (
        service_tokens.make_token(actor=actor, workload=row, name=name, now=NOW).token
        for actor, name in ((as_actor(cast.rosa), "own"), (by_api, "by-api"))
    )
    assert [service_access.opens_now(each) for each in (own, others)] == [True, True]
    assert actors.maker(service_access.credential(others)).tenants == frozenset({"vision"})
    type(api).objects.update(revoked_at=NOW)
    assert [service_access.opens_now(each) for each in (own, others)] == [True, False]


def test_a_rotation_revives_nothing_and_ends_no_text_in_passing(cast: Cast) -> None:
    row = runs(asked(cast))
    token = made(cast, row, cast.rosa).token

    def rotate(actor: User, keep: int) -> service_tokens.Made:
        return service_tokens.rotate_token(
            actor=as_actor(actor), workload=row, token=token.pk, keep_old_seconds=keep, now=NOW
        )

    first = rotate(cast.rosa, 60)
    with pytest.raises(Conflict, match="still opens"):
        rotate(cast.rosa, 60)
    assert service_access.opened_by(first.text, row.pk, NOW)
    rotate(cast.rosa, 0)
    assert service_access.opened_by(first.text, row.pk, NOW) is None
    User.objects.filter(pk=cast.rosa.pk).update(is_active=False)
    with pytest.raises(Conflict, match="opens nothing"):
        rotate(cast.leon, 60)
    assert rotate(cast.leon, 0).token.made_by == cast.leon


def test_a_token_ends_with_its_makers_access(cast: Cast) -> None:
    row = runs(asked(cast))
    kept = made(cast, row, cast.leon)

    def opens() -> bool:
        try:
            service_access.right(as_actor(cast.leon), kept.token.pk, kept.text, NOW)
        except (Conflict, NotAllowed, NotFound):
            return False
        return True

    assert opens()
    before = service_access.standings([kept.token.pk])
    change(cast, row, service={"open_to": "owner"})
    assert service_access.standings([kept.token.pk]) != before
    assert not opens()
    change(cast, row, service={"open_to": "team"})
    assert opens()
    cast.vision.memberships.filter(user=cast.leon).delete()
    assert not opens()


def test_while_no_replica_is_ready_what_is_open_stays_open(cast: Cast) -> None:
    """That none answers is said by the door (502); the end of all of them ends it."""
    row, notebook = runs(asked(cast)), runs(submit(cast, slug="nb"))
    kept, later = made(cast, row, cast.leon), NOW + timedelta(minutes=1)

    def inside(of: Workload) -> Any:
        return access.right(as_actor(cast.rosa), of.pk, later, NOW)

    def program() -> Any:
        return service_access.right(as_actor(cast.leon), kept.token.pk, kept.text, NOW)

    before = inside(row), program()
    # Two missed probes; then the replica answers again, in what may count as another run.
    for phase, started_at in ((Phase.STARTING, None), (Phase.RUNNING, later)):
        Workload.objects.update(phase=phase, started_at=started_at)
        assert (inside(row), program()) == before
    Workload.objects.update(phase=Phase.STARTING)
    row.refresh_from_db()
    with pytest.raises(Conflict):
        inside(notebook)
    # Nobody is sent to a page that is not there.
    assert access.refusal(as_actor(cast.rosa), row)
    for phase in (Phase.PENDING, Phase.STOPPING, Phase.STOPPED, Phase.FAILED, Phase.DELETING):
        Workload.objects.update(phase=phase)
        with pytest.raises(Conflict):
            inside(row)
        with pytest.raises(Conflict):
            program()
