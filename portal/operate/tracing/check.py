"""What `manage.py doctor` says of tracing: off, its packages missing, its collector away, or on."""

from collections.abc import Iterator
from dataclasses import replace

from portal.operate.findings import Finding, ok, wrong
from portal.operate.tracing import starting

PATIENCE_SECONDS = 2.0


def check() -> Iterator[Finding]:
    """One finding; of this process's variables and from where it stands."""
    yield replace(_found(), local=True)


def _found() -> Finding:
    if not starting.is_wanted():
        return ok("tracing", f"off: {starting.ENDPOINTS[1]} is not set")
    recording = starting.recording()
    if recording is None:
        seen = f"{starting.ENDPOINTS[1]} is set and its packages are missing: nothing is traced"
        return wrong("tracing", seen, f"Run `{starting.INSTALL}`, or use the image `traced`")
    if not recording.takes_spans(PATIENCE_SECONDS):
        cure = "See the collector, its address (OTLP over HTTP, usually port 4318), headers and the network"
        return wrong("tracing", "the collector takes nothing: spans are dropped, all else goes on", cure)
    return ok("tracing", "the collector takes spans")
