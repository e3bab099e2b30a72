"""Which tenants somebody reaches. The tenants app lies above this one and registers the answer at start."""

from collections.abc import Callable, Collection

from apps.accounts.specs import Actor

Seen = Callable[[Actor, Collection[str]], Collection[str]]
_answers: list[Seen] = []


def answered_by(seen: Seen) -> None:
    """Registers the function that tells which of some slugs are tenants that the actor sees."""
    _answers[:] = [seen]


def unknown(actor: Actor, slugs: Collection[str]) -> list[str]:
    """The slugs, in order, that name no tenant or none that the actor sees; the two are never told apart."""
    known = set(_answers[0](actor, slugs)) if slugs else set()
    return [slug for slug in slugs if slug not in known]
