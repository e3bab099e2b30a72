"""Which suites a change touches: pure, but for asking git what changed."""

from collections.abc import Iterable

from tests.verify.suites import SUITES
from tests.verify.tree import git

SHARED = ("pyproject.toml", "requirements/")
"""Whose change touches every suite, as that of every module that stands in `tests` itself does."""


def changed_since(rev: str) -> list[str]:
    """The paths that differ from `rev`, those that git does not know yet too; a moved file is two paths."""
    differing = git("diff", "--name-only", "--no-renames", rev)
    unknown = git("ls-files", "--others", "--exclude-standard")
    return sorted({*differing.splitlines(), *unknown.splitlines()})


def touched_by(changed: Iterable[str]) -> dict[str, list[str]]:
    """The suites to run, in their order, and for each the paths because of which."""
    paths = list(changed)
    reasons = {name: [path for path in paths if touches(path, name)] for name in SUITES}
    return {name: because for name, because in reasons.items() if because}


def touches(path: str, name: str) -> bool:
    """Whether a change of the path could make the suite fail, as far as is declared."""
    return is_shared(path) or is_below(path, SUITES[name].about)


def is_shared(path: str) -> bool:
    """Whether every suite stands on it."""
    return is_below(path, SHARED) or (path.startswith("tests/") and path.count("/") == 1)


def is_below(path: str, places: Iterable[str]) -> bool:
    """Whether it is one of the places, or stands in one that is a folder."""
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)
