"""The checkout that is verified: its root, and what git says of it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOOK = "docs/verified.md"


def git(*words: str) -> str:
    """What git answers in the checkout."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit() -> str:
    """A figure without the commit it was measured at is worth nothing. The record of runs is no change."""
    has_changes = git("status", "--porcelain", "--", ".", f":(exclude){BOOK}")
    return git("rev-parse", "--short", "HEAD") + (" with local changes" if has_changes else "")
