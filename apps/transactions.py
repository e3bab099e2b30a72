"""One transaction for a request, in which what it calls sets no savepoint that nobody would go back to."""

from django.db.transaction import Atomic, get_connection


class _Whole(Atomic):
    pass


class _Part(Atomic):
    def _recreate_cm(self) -> Atomic:
        return Atomic(None, savepoint=not _is_in_whole(), durable=False)


def whole() -> Atomic:
    """A transaction that any refusal inside undoes as a whole; inside another one it is that one.

    RULE: nobody catches what a `part` raises and goes on in it.
    """
    return _Whole(None, savepoint=not _is_in_whole(), durable=False)


part = _Part(None, savepoint=True, durable=False)
"""As a decorator what `transaction.atomic` is, but without a savepoint directly inside a `whole`."""


def _is_in_whole() -> bool:
    blocks = get_connection().atomic_blocks
    return bool(blocks) and isinstance(blocks[-1], _Whole)
