"""`python -m tests.stack`, or `make stack`: a stack by hand, until it is stopped."""

import signal
import sys
import tempfile
from pathlib import Path

from tests.stack.installation import standing


def main() -> None:
    """Say where it answers, and keep it until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="allotment-stack-") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        with standing(home) as stack:
            sys.stdout.write(f"The stack answers at {stack.url}; its logs and tokens.json are in {home}.\n")
            sys.stdout.flush()
            try:
                signal.pause()
            except KeyboardInterrupt:
                sys.stdout.write("It is taken down.\n")


if __name__ == "__main__":
    main()
