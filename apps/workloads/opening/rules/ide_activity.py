"""What a notebook's IDE says of its own use: read from Jupyter's answers, or those of VS Code in the browser
(code-server), and put in words. Pure.

The IDE is the tenant's: nothing of what it says is believed beyond a form, a number and a time that has been.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, NotRequired, Self, TypedDict

KERNELS = "/api/kernels?no_track_activity=1"
"""Asked like this it is no activity itself."""
TERMINALS = "/api/terminals?no_track_activity=1"
STATUS = "/api/status"
HEALTH = "/healthz"
"""Of code-server: the one address of it that is no activity when it is asked."""
BELIEVED = timedelta(minutes=15)
"""For so long an answer says what is; then it is unknown again."""
MOST = 1000
"""Kernels, and terminals."""
NO_ANSWER, NOT_JUPYTER, REFUSED = "no answer", "it does not speak Jupyter's API", "it refuses its token"
NOT_ASKED = "not asked yet"


class Kept(TypedDict):
    """An `Activity` as a row and a finding's evidence keep it."""

    answered_at: str
    kernels: int
    running: int
    tabs: int
    last_activity: str | None
    terminals: NotRequired[int]
    """Absent, with the next, from what was kept before terminals were asked."""
    terminal_activity: NotRequired[str | None]
    vs_code: NotRequired[bool]
    """Only where it is: then nothing is known but whether a tab is open, and when one last was."""


@dataclass(frozen=True)
class Activity:
    """What it said at `answered_at`: `running` of its kernels run code, `tabs` are connected to them.

    Jupyter knows of a terminal when something was last typed or printed, while a browser shows it.

    RULE: of VS Code nothing is known but its tab: `tabs` is 1 while one is open, `last_activity` is when one
    last was. A tab that is open is no work: somebody may have left it, so it keeps no idle policy waiting.
    """

    answered_at: datetime
    kernels: int
    running: int
    tabs: int
    last_activity: datetime | None
    terminals: int = 0
    terminal_activity: datetime | None = None
    is_vs_code: bool = False

    @property
    def uses_terminal(self) -> bool:
        """Whether something was typed or printed in a terminal lately."""
        last = self.terminal_activity
        return last is not None and self.answered_at - last <= BELIEVED

    @property
    def is_at_work(self) -> bool:
        """Whether it is known to do something, be it without a GPU."""
        return bool(self.running) or self.uses_terminal

    def as_json(self) -> Kept:
        """See `of_json`."""
        kept: Kept = {
            "answered_at": self.answered_at.isoformat(),
            "kernels": self.kernels,
            "running": self.running,
            "tabs": self.tabs,
            "last_activity": _as_text(self.last_activity),
            "terminals": self.terminals,
            "terminal_activity": _as_text(self.terminal_activity),
        }
        return kept | {"vs_code": True} if self.is_vs_code else kept

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Self:
        """What `as_json` made."""
        return cls(
            datetime.fromisoformat(kept["answered_at"]),
            kept["kernels"],
            kept["running"],
            kept["tabs"],
            _of_text(kept["last_activity"]),
            kept.get("terminals", 0),
            _of_text(kept.get("terminal_activity")),
            kept.get("vs_code", False),
        )


def read(kernels: Any, status: Any, now: datetime, terminals: Any = ()) -> Activity:
    """Jupyter's answers to KERNELS, STATUS and TERMINALS; raises ValueError for anything else.

    RULE: where a kernel is, the kernels' own activity counts. The server's also counts the tab's own asking.
    """
    if not (isinstance(status, Mapping) and _is_list(kernels) and _is_list(terminals)):
        raise ValueError(NOT_JUPYTER)
    states = [_text(each, "execution_state") for each in kernels]
    times = [_moment(_text(each, "last_activity"), now) for each in kernels]
    last = max(times) if times else _moment(_text(status, "last_activity"), now)
    tabs = sum(_count(each, "connections") for each in kernels)
    typed = [_moment(_text(each, "last_activity"), now) for each in terminals]
    return Activity(now, len(states), states.count("busy"), tabs, last, len(typed), max(typed, default=None))


def read_health(body: Any, now: datetime) -> Activity:
    """code-server's answer to HEALTH; raises ValueError for anything else.

    Its heart beats at every request but this one, and once a minute while anything is connected: `alive` for
    a minute after a beat. `lastHeartbeat` is in milliseconds since 1970, 0 before the first.
    """
    status = _text(body, "status")
    beat = body.get("lastHeartbeat")
    if status not in ("alive", "expired") or type(beat) is not int or beat < 0:
        raise ValueError(HEALTH)
    # Never later than now, so that no number is too large for a time.
    last = datetime.fromtimestamp(min(beat / 1000, now.timestamp()), UTC) if beat else None
    return Activity(now, 0, 0, int(status == "alive"), last, is_vs_code=True)


def is_jupyter(kept: Mapping[str, Any] | None, since: datetime | None) -> bool:
    """Whether what a row keeps is Jupyter's answer in the present run, which began `since`."""
    if not kept or since is None or kept.get("problem"):
        return False
    found = Activity.of_json(kept)
    return since <= found.answered_at and not found.is_vs_code


def believed(kept: Mapping[str, Any] | None, since: datetime | None, now: datetime) -> Activity | None:
    """What a row keeps, as far as it speaks of the present run, which began `since`, and is not too old."""
    if not kept or since is None or kept.get("problem"):
        return None
    found = Activity.of_json(kept)
    return found if since <= found.answered_at and now - found.answered_at <= BELIEVED else None


def problem(kept: Mapping[str, Any] | None) -> str:
    """Why nothing is known, where `believed` says so."""
    return str((kept or {}).get("problem") or NOT_ASKED)


def work_words(found: Activity) -> str:
    """`a kernel runs code`, `2 of 3 kernels run code`, `a terminal is in use`; "" for none of it."""
    if found.running:
        several = f"{found.running} of {found.kernels} kernels run code"
        return "a kernel runs code" if found.kernels == 1 else several
    return "a terminal is in use" if found.uses_terminal else ""


def words(found: Activity, idle_since: datetime | None, now: datetime) -> str:
    """As `A kernel runs code, no GPU use since 14:10 UTC.`; `idle_since` as metering found it."""
    if found.is_vs_code:
        return _tab_words(found, now)
    if works := work_words(found):
        unused = f", no GPU use since {_clock(idle_since, now)}" if idle_since else ""
        return f"{works[0].upper()}{works[1:]}{unused}."
    last = f"last activity {_clock(found.last_activity, now)}" if found.last_activity else "no activity yet"
    terminals = _terminal_words(found.terminals)
    if not found.kernels:
        return f"No kernel, {last}.{terminals}"
    opened = "its kernel runs" if found.kernels == 1 else f"its {found.kernels} kernels run"
    tab = ", a tab is open" if found.tabs else ""
    return f"{opened[0].upper()}{opened[1:]} no code, {last}{tab}.{terminals}"


def _tab_words(found: Activity, now: datetime) -> str:
    if found.tabs:
        return "A tab of VS Code is open."
    if found.last_activity is None:
        return "No tab of VS Code has been open yet."
    return f"No tab of VS Code has been open since {_clock(found.last_activity, now)}."


def _terminal_words(count: int) -> str:
    if not count:
        return ""
    subject = "A terminal is open" if count == 1 else f"{count} terminals are open"
    return f" {subject}; a program that prints nothing there is not seen."


def _clock(at: datetime, now: datetime) -> str:
    at = at.astimezone(UTC)
    return f"{at:%H:%M} UTC" if at.date() == now.astimezone(UTC).date() else f"{at:%Y-%m-%d %H:%M} UTC"


def _is_list(body: Any) -> bool:
    return isinstance(body, list | tuple) and len(body) <= MOST


def _as_text(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _of_text(kept: str | None) -> datetime | None:
    return datetime.fromisoformat(kept) if kept else None


def _text(body: Any, key: str) -> str:
    found = body.get(key) if isinstance(body, Mapping) else None
    return found if isinstance(found, str) else _unlike()


def _count(body: Mapping[str, Any], key: str) -> int:
    found = body.get(key)
    return found if isinstance(found, int) and 0 < found <= MOST else 0


def _moment(text: str, now: datetime) -> datetime:
    """Never later than now; raises ValueError for what is no time with a zone."""
    try:
        found = datetime.fromisoformat(text)
        return min(found.astimezone(UTC), now) if found.tzinfo else _unlike()
    except (ValueError, OverflowError):
        return _unlike()


def _unlike() -> NoReturn:
    raise ValueError(NOT_JUPYTER)
