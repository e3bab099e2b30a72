"""Events of the cast, written as the product writes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from apps.accounts.specs import Actor
from apps.audit import services
from apps.audit.specs import Target

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def write(
    actor: str, action: str, target: Target, *, minute: int = 0, reason: str = "", changes: Any = None
) -> None:
    who = Actor(
        username=actor,
        token_prefix="" if actor.startswith("system:") else "alt_12345678",
        request_id=f"r-{minute}",
    )
    with transaction.atomic():
        services.record(
            who, action, target, now=AT + timedelta(minutes=minute), reason=reason, changes=changes
        )


def write_many(count: int, tenant: str = "vision", actor: str = "researcher") -> None:
    """So many stops of one tenant's notebooks, a minute apart."""
    for number in range(count):
        target = Target("workload", f"w-{number}", f"nb-{number}", tenant)
        write(
            actor, "workload.stop", target, minute=number, reason="done", changes={"suspend": [False, True]}
        )


def sql(statement: str) -> None:
    """Past the ORM, as somebody with the database's password would."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
