"""The Pythons of this machine that the product may be run with."""

import os
import shutil
import subprocess

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def interpreters() -> list[str]:
    """Those with what makes virtual environments, as the Makefile looks for them, the oldest first.

    PYTHONS names interpreters that are not on PATH, with commas between them.
    """
    named = [each for each in os.environ.get("PYTHONS", "").split(",") if each]
    candidates = named or [path for each in VERSIONS if (path := shutil.which(f"python{each}"))]
    makes = [[each, "-c", "import ensurepip"] for each in candidates]
    return [
        make[0] for make in makes if not subprocess.run(make, capture_output=True, check=False).returncode
    ]
