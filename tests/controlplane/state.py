"""What a launcher remembers about a plane between two commands: its options and its processes.

One JSON file in the plane's folder, replaced in one step. Starts and stops nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.controlplane.process import Record


@dataclass
class State:
    """The options that a plane was started with and one record per started component."""

    base_port: int
    fleet: str
    audit: bool
    service_account_admission: bool
    nodes_at: str = ""
    binaries: str = ""
    processes: dict[str, Record] = field(default_factory=dict)


def load(folder: Path) -> State | None:
    """The state of the plane in `folder`, or None where none was started."""
    path = _path(folder)
    if not path.exists():
        return None
    raw = json.loads(path.read_text())
    raw["processes"] = {name: Record(**record) for name, record in raw["processes"].items()}
    return State(**raw)


def save(folder: Path, state: State) -> None:
    """Written after every start and stop, so that a crash of the launcher loses no process."""
    part = folder / ".state.json"
    part.write_text(json.dumps(asdict(state), indent=2))
    part.replace(_path(folder))


def forget(folder: Path) -> None:
    """Called once every process is gone."""
    _path(folder).unlink(missing_ok=True)


def _path(folder: Path) -> Path:
    return folder / "state.json"
