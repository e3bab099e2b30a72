"""Whether a process records traces: where the variables of OpenTelemetry's SDK name a collector.

RULE: without them nothing of OpenTelemetry is read. Without its packages (`requirements/tracing.txt`) or its
collector the product does all else as ever.
"""

import importlib
import logging
import os
from collections.abc import Mapping
from typing import Any

from portal.config import SECRETS

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
INSTALL = "pip install --require-hashes -r requirements/tracing.txt"
_RECORDING = "portal.operate.tracing.recording"

_log = logging.getLogger(__name__)


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a collector is named, and traces are not switched off as the SDK's variables do it."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_elsewhere = environment.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() != "otlp"
    return any(map(environment.get, ENDPOINTS)) and not is_off and not is_elsewhere


def recording() -> Any:
    """What records, read now; None where its packages are missing. RULE: of a collector's headers, which may
    hold a credential, a file of the folder of secrets is as good as the variable.
    """
    try:
        module = importlib.import_module(_RECORDING)
    except ImportError:
        return None
    file = SECRETS / HEADERS.lower()
    if HEADERS not in os.environ and file.is_file():
        os.environ[HEADERS] = file.read_text().strip()
    return module


def read_ahead() -> None:
    """Before a worker forks: its children share what is read."""
    if is_wanted():
        recording()


def start(part: str) -> None:
    """Record what this process does, from now on; `part` as in the Procfile. Never in a process that forks
    later: what sends is a thread.
    """
    if not is_wanted():
        return
    module = recording()
    if module is None:
        _log.warning("Nothing is traced: %s is set, the packages are missing. Run: %s", ENDPOINTS[1], INSTALL)
        return
    module.start(part)


def stop() -> None:
    """Send what is left, where it can be sent at once."""
    if is_wanted() and (module := recording()) is not None:
        module.stop()
