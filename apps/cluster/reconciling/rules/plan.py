"""What has to be applied and deleted so that the cluster holds what a row wants. Pure: reads nothing, calls
nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apps.cluster.objects.fields import digest
from apps.cluster.objects.kinds import KINDS
from apps.cluster.specs import Manifest, ObjectRef, Observed, ref_of
from apps.words import Word


class Why(Word):
    """Why an object is applied."""

    MISSING = "missing", "It is not there"
    CHANGED = "changed", "What we want has changed"
    DRIFTED = "drifted", "Somebody changed what we applied"


@dataclass(frozen=True)
class Apply:
    """One server-side apply; `sent_hash` is kept with the answer, so that the same again costs no call."""

    ref: ObjectRef
    manifest: Manifest
    sent_hash: str
    why: Why


@dataclass(frozen=True)
class Delete:
    """One removal of exactly this uid."""

    ref: ObjectRef
    uid: str


@dataclass(frozen=True)
class Plan:
    """Deletes come first, then one level of applies after the other; inside a level the order is free.

    `waiting` are objects that we want and that are being deleted right now: they are applied again once gone.
    """

    levels: tuple[tuple[Apply, ...], ...] = ()
    deletes: tuple[Delete, ...] = ()
    waiting: tuple[ObjectRef, ...] = ()
    unchanged: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the plan makes no call."""
        return not self.levels and not self.deletes


def diff(
    desired: Sequence[Manifest],
    observed: Mapping[ObjectRef, Observed],
    *,
    owner_id: str,
    in_order: bool = True,
) -> Plan:
    """The calls that lead from `observed` to `desired` for the row `owner_id`.

    Unchanged, so no call: we sent exactly this manifest, and the fields we own still read as in the answer
    to it. Deleted: what carries our managed-by label and this row's uid label, is of a kind that we apply,
    has no owner in the cluster that would make it again, and is no longer desired. An object on its way out
    is left alone. Not `in_order`: none of them builds on another, so all applies are one level.
    """
    applies: list[Apply] = []
    waiting: list[ObjectRef] = []
    for manifest in desired:
        ref, sent = ref_of(manifest), digest(manifest)
        seen = observed.get(ref)
        if seen is not None and seen.deleting:
            waiting.append(ref)
        elif (why := _why(seen, sent)) is not None:
            applies.append(Apply(ref, manifest, sent, why))
    return Plan(
        levels=_levels(applies) if in_order or not applies else (tuple(applies),),
        deletes=_deletes(observed.values(), {ref_of(manifest) for manifest in desired}, owner_id),
        waiting=tuple(waiting),
        unchanged=len(desired) - len(applies) - len(waiting),
    )


def _why(seen: Observed | None, sent: str) -> Why | None:
    if seen is None or not seen.sent_hash:
        return Why.MISSING
    if seen.sent_hash != sent:
        return Why.CHANGED
    return None if seen.applied_hash and seen.live_hash == seen.applied_hash else Why.DRIFTED


def _level(ref: ObjectRef) -> int:
    return KINDS[ref.kind].level or 0


def _levels(applies: Sequence[Apply]) -> tuple[tuple[Apply, ...], ...]:
    present = sorted({_level(apply.ref) for apply in applies})
    return tuple(tuple(a for a in applies if _level(a.ref) == level) for level in present)


def _deletes(observed: Iterable[Observed], wanted: set[ObjectRef], owner_id: str) -> tuple[Delete, ...]:
    """Bindings before accounts before namespaces: a right ends before the one who held it is removed."""
    ours = [
        seen
        for seen in observed
        if seen.is_managed
        and seen.owner_id == owner_id
        and not seen.controller_uid
        and not seen.deleting
        and seen.ref not in wanted
        and KINDS[seen.ref.kind].level is not None
    ]
    ours.sort(key=lambda seen: (-_level(seen.ref), seen.ref))
    return tuple(Delete(seen.ref, seen.uid) for seen in ours)
