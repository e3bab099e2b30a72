"""The record is whole or says where it is not."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from apps.accounts.specs import Actor, system_actor
from apps.audit import services
from apps.audit.chain import BreachKind, Place, plain, seal
from apps.audit.models import AppendOnlyError, AuditEvent, ChainHead
from apps.audit.selectors import events_about, links_after
from apps.audit.specs import Target, tenant_chain
from tests.audit.records import AT, sql

pytestmark = pytest.mark.both_databases

VISION = tenant_chain("vision")
WHO = Actor(username="rosa", token_prefix="alt_12345678", request_id="r-1")


def write(count: int, tenant: str = "vision") -> None:
    for number in range(count):
        with transaction.atomic():
            services.record(
                WHO,
                "workload.stop",
                Target("workload", f"w-{number}", "nb-ada", tenant),
                now=AT + timedelta(seconds=number),
                reason="done",
                changes={"suspend": [False, True]},
            )


@pytest.mark.django_db(transaction=True)
def test_an_event_outside_a_transaction_is_refused() -> None:
    with pytest.raises(RuntimeError, match="in the transaction of the change"):
        services.record(WHO, "a", Target("k", "1", "n", "vision"), now=AT)
    assert AuditEvent.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_an_event_goes_with_the_change_that_is_rolled_back() -> None:
    with transaction.atomic():
        write(1)
        transaction.set_rollback(True)
    assert (AuditEvent.objects.count(), ChainHead.objects.count()) == (0, 0)


@pytest.mark.django_db
def test_an_event_keeps_who_did_what_to_which_thing() -> None:
    write(2)
    event = events_about("w-1").get()
    assert (event.actor, event.token, event.request_id) == ("rosa", "alt_12345678", "r-1")
    assert (event.sequence, event.action, event.reason) == (2, "workload.stop", "done")
    assert event.changes == {"suspend": [False, True]}
    assert event.previous_hash == events_about("w-0").get().hash


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        lambda event: event.save(),
        lambda event: event.delete(),
        lambda _: AuditEvent.objects.update(actor="nobody"),
        lambda _: AuditEvent.objects.all().delete(),
        lambda event: AuditEvent.objects.bulk_update([event], ["actor"]),
        lambda _: AuditEvent._base_manager.all().delete(),
    ],
)
def test_the_orm_neither_changes_nor_deletes_an_event(change: Callable[[AuditEvent], object]) -> None:
    write(1)
    with pytest.raises(AppendOnlyError):
        change(AuditEvent.objects.get())
    assert AuditEvent.objects.get().actor == "rosa"


@pytest.mark.django_db
def test_an_untouched_record_is_whole() -> None:
    write(5)
    write(3, tenant="")
    verdict = services.verify()
    assert (verdict.chains, verdict.links, verdict.breaches) == (2, 8, ())


DAMAGE = {
    "an edit": ("UPDATE audit_auditevent SET reason = 'nothing' WHERE sequence = 3", 3, BreachKind.EDITED),
    "an edited time": (
        "UPDATE audit_auditevent SET at = '2020-01-01 00:00:00+00' WHERE sequence = 2",
        2,
        BreachKind.EDITED,
    ),
    "a deletion": ("DELETE FROM audit_auditevent WHERE sequence = 3", 4, BreachKind.MISSING),
    "a deleted first link": ("DELETE FROM audit_auditevent WHERE sequence = 1", 2, BreachKind.MISSING),
    "a cut tail": ("DELETE FROM audit_auditevent WHERE sequence > 3", 4, BreachKind.TRUNCATED),
    "everything deleted": ("DELETE FROM audit_auditevent", 1, BreachKind.TRUNCATED),
    "a deleted head": ("DELETE FROM audit_chainhead", 1, BreachKind.EXTRA),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("statement", "place", "kind"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_where_it_is(statement: str, place: int, kind: BreachKind) -> None:
    write(5)
    sql(statement)
    (breach,) = services.verify(VISION).breaches
    assert (breach.sequence, breach.kind) == (place, kind)


@pytest.mark.django_db
def test_two_links_that_changed_places_are_found_at_the_first() -> None:
    write(5)
    for old, new in ((3, 103), (2, 3), (103, 2)):
        sql(f"UPDATE audit_auditevent SET sequence = {new} WHERE sequence = {old}")  # noqa: S608 numbers of our own
    (breach,) = services.verify(VISION).breaches
    assert (breach.sequence, breach.kind) == (2, BreachKind.EDITED)


def forge(sequence: int, previous_hash: str) -> None:
    """A link whose own hash is right, as somebody who read this code would make it."""
    old = links_after(Place(VISION), 1)[0].link
    link = type(old)(**{**old.__dict__, "sequence": sequence, "actor": "nobody"})
    AuditEvent.objects.create(**link.__dict__, previous_hash=previous_hash, hash=seal(link, previous_hash))


@pytest.mark.django_db
def test_an_inserted_link_is_found_by_its_neighbour() -> None:
    write(4)
    before = AuditEvent.objects.get(sequence=2).hash
    for old in (4, 3):
        sql(f"UPDATE audit_auditevent SET sequence = {old + 1} WHERE sequence = {old}")  # noqa: S608 as above
    forge(3, before)
    (breach,) = services.verify(VISION).breaches
    assert (breach.sequence, breach.kind) == (4, BreachKind.EDITED)


@pytest.mark.django_db
def test_a_link_rewritten_with_a_right_hash_is_found_by_the_next() -> None:
    write(4)
    before = AuditEvent.objects.get(sequence=2).hash
    sql("DELETE FROM audit_auditevent WHERE sequence = 3")
    forge(3, before)
    (breach,) = services.verify(VISION).breaches
    assert (breach.sequence, breach.kind) == (4, BreachKind.RELINKED)


@pytest.mark.django_db
def test_a_link_appended_behind_the_heads_back_is_found() -> None:
    write(3)
    forge(4, AuditEvent.objects.get(sequence=3).hash)
    (breach,) = services.verify(VISION).breaches
    assert (breach.sequence, breach.kind) == (4, BreachKind.EXTRA)


@pytest.mark.django_db
def test_the_command_prints_counts_or_fails_with_the_place() -> None:
    write(3)
    out = StringIO()
    call_command("verify_audit", stdout=out)
    assert out.getvalue() == "Whole: 3 events in 1 chains.\n"
    sql("DELETE FROM audit_auditevent WHERE sequence = 2")
    with pytest.raises(CommandError, match="Broken: tenant:vision#3 missing"):
        call_command("verify_audit")


@pytest.mark.django_db
def test_what_every_database_would_give_back_differently_is_kept_as_text() -> None:
    changes = {
        "hourly": Decimal("0.420"),
        "ratio": 100000.0,
        "at": AT,
        "ids": {UUID(int=1)},
        "nested": [(1, None)],
    }
    with transaction.atomic():
        services.record(system_actor("lease"), "a", Target("k", "1", "n", "vision"), now=AT, changes=changes)
    kept = AuditEvent.objects.get().changes
    assert (kept["hourly"], kept["ratio"], kept["ids"]) == ("0.420", "100000.0", [str(UUID(int=1))])
    assert kept["nested"] == [[1, None]]
    assert services.verify().breaches == ()


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold a object"):
        plain({"thing": object()})
