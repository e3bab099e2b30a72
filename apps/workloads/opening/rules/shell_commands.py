"""What is run in a container for what an SSH client asks for. Pure.

Only `sh` has to be in the image: a shell is bash where there is one.
"""

from shlex import quote

SFTP = "sftp"
"""The subsystem by which `sftp`, `scp` and PyCharm move files."""
_SERVERS = ("/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec")
"""Where Debian, Fedora, Arch and Alpine keep their sftp-server."""
NO_SFTP = "This image has no sftp-server (Debian: openssh-sftp-server). Use tar or rsync over ssh."
Command = tuple[str, ...]


def shell(terminal: str | None) -> Command:
    """A login shell; without a terminal it reads its commands from its input."""
    return _sh('exec "$(command -v bash || command -v sh)" -l', terminal)


def command(words: str, terminal: str | None) -> Command:
    """One command line, as the person's own shell would run it."""
    return _sh(words, terminal)


def sftp() -> Command:
    """The image's own file server."""
    lines = [f"[ -x {folder}/sftp-server ] && exec {folder}/sftp-server" for folder in _SERVERS]
    return _sh("\n".join([*lines, f"echo {quote(NO_SFTP)} >&2", "exit 127"]), None)


def _sh(words: str, terminal: str | None) -> Command:
    kind = f"export TERM={quote(terminal)}; " if terminal else ""
    return ("sh", "-c", kind + words)
