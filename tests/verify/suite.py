"""What a suite of `make verify` is, and how those in process and on a plane are run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

WITHOUT_SERVERS = ("-m", "not plane and not node and not browser and not postgres")
TWO_PROCESSES = ("-n", "2", "--dist", "worksteal")
WITHOUT_PLANE, PLANE_ALONE = ("-m", "not plane"), ("-m", "plane and not browser")
BASE = (
    "apps/__init__.py",
    "apps/errors.py",
    "apps/prepared.py",
    "apps/ranges.py",
    "apps/rows.py",
    "apps/sealing.py",
    "apps/words.py",
)
"""What every app stands on."""


@dataclass(frozen=True)
class Suite:
    """One long run: what it proves, its tests, and the settings that make them long."""

    proves: str
    tests: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Of pytest."""
    product: tuple[str, ...] = ()
    """Files and folders that it is about beside its own tests."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """A suite with settings measures: there the limits of time hold as they are written."""
    on_postgres: bool = False
    on_plane: bool = False
    with_flux: bool = False
    with_gateway: bool = False
    on_nodes: bool = False
    alone: bool = False
    """Each of its folders runs in a pytest of its own, so on a plane of its own."""
    judges: tuple[str, ...] = ()
    """Suites on a plane whose use of the product's rights is judged together, instead of tests of its own."""

    @property
    def about(self) -> tuple[str, ...]:
        """The paths whose change touches it."""
        plane = ("tests/controlplane/",) if self.on_plane else ()
        return (*self.tests, *self.product, *plane)


def folders(*names: str) -> tuple[str, ...]:
    """Of the tests."""
    return tuple(f"tests/{name}" for name in names)


def in_process(proves: str, tests: tuple[str, ...], *product: str, without: tuple[str, ...] = ()) -> Suite:
    """As in `make test`, and with what that leaves out; `without` are test files of another suite."""
    ignored = (f"--ignore={path}" for path in without)
    return Suite(proves, tests, (*TWO_PROCESSES, *WITHOUT_SERVERS, *ignored), (*BASE, *product))


def on_plane(proves: str, tests: tuple[str, ...], *product: str) -> Suite:
    """As in the gate, and with what that leaves out."""
    return Suite(proves, tests, PLANE_ALONE, product, on_postgres=True, on_plane=True, alone=True)
