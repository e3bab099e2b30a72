"""Which rights follow from somebody's groups, and what a sign-in changes. Pure.

RULE: a rule raises, it never lowers. What a person gave by hand stays, whatever the groups say; what a rule
gave and gives no longer is taken back, down to what was given by hand.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from apps.accounts.specs import PlatformRole
from apps.tenants.specs import DepartmentRole, RightKind, Role

Key = tuple[RightKind, str]
"""Over what: the kind, and the slug of it (empty for the installation)."""

RANKS: Mapping[RightKind, tuple[str, ...]] = {
    RightKind.TENANT: ("", Role.MEMBER, Role.LEAD),
    RightKind.DEPARTMENT: ("", DepartmentRole.MANAGER),
    RightKind.PLATFORM: ("", PlatformRole.AUDITOR, PlatformRole.PLATFORM),
}
"""The roles over each kind, the least first."""


@dataclass(frozen=True)
class Rule:
    """Whoever is in the group has the role."""

    group: str
    kind: RightKind
    target: str
    role: str


@dataclass(frozen=True)
class Gift:
    """What rules gave somebody of a right, and what was given by hand below it."""

    role: str
    before: str = ""


@dataclass(frozen=True)
class Outcome:
    """What becomes of one right: the role now and after, what of that a rule gives, and by which groups."""

    kind: RightKind
    target: str
    now: str
    after: str
    gift: Gift | None
    groups: tuple[str, ...] = field(default=())

    @property
    def is_change(self) -> bool:
        """Whether the person gets or loses something."""
        return self.now != self.after

    @property
    def why(self) -> str:
        """In words, for whoever looks at it before."""
        if self.gift:
            return f"by {', '.join(self.groups)}"
        return "given by hand, stays" if self.after else "no rule gives it any more"


def outcomes(
    rules: Iterable[Rule],
    groups: Collection[str],
    *,
    held: Mapping[Key, str],
    gifts: Mapping[Key, Gift],
) -> list[Outcome]:
    """What a sign-in with these groups makes of every right that rules give, or gave."""
    wanted: dict[Key, str] = {}
    by: dict[Key, list[str]] = {}
    for rule in rules:
        key = (rule.kind, rule.target)
        if rule.group in groups:
            wanted[key] = highest(rule.kind, wanted.get(key, ""), rule.role)
            by.setdefault(key, []).append(rule.group)
    return [
        _outcome(key, wanted.get(key, ""), held.get(key, ""), gifts.get(key), groups=by.get(key, ()))
        for key in sorted({*wanted, *gifts})
    ]


def _outcome(key: Key, want: str, now: str, gift: Gift | None, *, groups: Iterable[str]) -> Outcome:
    kind, target = key
    # A role that is not what the rule gave was set by hand since.
    by_hand = gift.before if gift is not None and gift.role == now else now
    after = highest(kind, by_hand, want)
    kept = Gift(want, by_hand) if after != by_hand else None
    return Outcome(kind, target, now, after, kept, tuple(sorted(set(groups))))


def highest(kind: RightKind, one: str, other: str) -> str:
    """The role that reaches further."""
    return max(one, other, key=RANKS[kind].index)
