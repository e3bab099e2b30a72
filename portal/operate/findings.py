"""What a check of the installation finds: all is well, worth knowing, or wrong with what to do. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

State = Literal["ok", "note", "wrong"]
OK: State = "ok"
NOTE: State = "note"
WRONG: State = "wrong"


@dataclass(frozen=True)
class Finding:
    """One check: its name, how it stands, what was seen, and what to do where that is not well.

    RULE: `seen` and `cure` are our own words with names and figures of ours, and go into the support bundle.
    What others said (a cluster, an error) stands in `told`, which does not. `local`: it holds for the machine
    and the process that looked, and says nothing of others.
    """

    name: str
    state: State
    seen: str
    cure: str = ""
    told: str = ""
    local: bool = False

    @property
    def line(self) -> str:
        """As the terminal shows it."""
        words = ". ".join(part.rstrip(".") for part in (self.seen, self.told, self.cure) if part)
        return f"{self.state:5}  {self.name}: {words}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return dict(self.__dict__)

    @property
    def shareable(self) -> "Finding":
        """Without what others said."""
        return replace(self, told="")


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What is wrong first, then what is worth knowing, then the rest; otherwise as they were found."""
    return tuple(sorted(findings, key=lambda finding: (WRONG, NOTE, OK).index(finding.state)))


def ok(name: str, seen: str) -> Finding:
    """All is well."""
    return Finding(name, OK, seen)


def note(name: str, seen: str, cure: str) -> Finding:
    """Worth knowing; nothing is broken."""
    return Finding(name, NOTE, seen, cure)


def wrong(name: str, seen: str, cure: str, *, told: str = "") -> Finding:
    """Something is broken, or will be."""
    return Finding(name, WRONG, seen, cure, told)
