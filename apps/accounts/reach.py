"""Which tenants somebody reaches. Tenants sit above accounts: they say it here when the product starts."""

from collections.abc import Callable, Collection

from apps.accounts.specs import Actor

Seen = Callable[[Actor, Collection[str]], Collection[str]]
_answers: list[Seen] = []


def answered_by(seen: Seen) -> None:
    """Registers who knows which of some slugs are tenants that the actor sees."""
    _answers[:] = [seen]


def unknown(actor: Actor, slugs: Collection[str]) -> list[str]:
    """Those of the slugs that are no tenant, or none that the actor sees: never told apart. In order."""
    known = set(_answers[0](actor, slugs)) if slugs else set()
    return [slug for slug in slugs if slug not in known]
