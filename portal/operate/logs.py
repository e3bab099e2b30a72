"""How processes log: a line per event as text or JSON (`ALLOTMENT_LOG_FORMAT`), on stderr, without secrets.

RULE: a JSON line has `time` (RFC 3339, UTC), `level`, `logger`, `message`, and where they are known
`request_id`, `workload_id` (or another row's id), `task`, `trace_id` (while it is recorded) and `exception`;
nothing else that a record carries gets into it. Secrets are taken out of both forms: the settings' own by
their value, others by their form.
"""

import logging
import logging.config
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from apps.accounts.scrub import Scrub
from apps.web import spans
from apps.web.stores import outage
from portal.config import Config

LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"


def secrets_of(config: Config) -> list[str]:
    """The settings' own secrets."""
    urls = (config.database_url, config.redis_url, config.telemetry_url)
    return [config.secret_key, config.metrics_token, *(urlsplit(url).password or "" for url in urls)]


class TextFormatter(logging.Formatter):
    """A line as people read it."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__(LINE)
        self._scrub = Scrub(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """See logging."""
        return self._scrub(super().format(record))


class JsonFormatter(structlog.stdlib.ProcessorFormatter):
    """A line as programs read it."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._scrub = Scrub(secrets)
        super().__init__(
            foreign_pre_chain=[structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")],
            processors=[
                structlog.processors.format_exc_info,
                self._chosen,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )

    def _chosen(self, _logger: object, _name: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        record: logging.LogRecord = event["_record"]
        chosen = {
            "time": event["time"],
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._scrub(str(event["event"])),
            **{name: self._scrub(str(value)) for name, value in known_of(record).items()},
        }
        if exception := event.get("exception"):
            chosen["exception"] = self._scrub(str(exception))
        return chosen


def known_of(record: logging.LogRecord) -> dict[str, Any]:
    """What is known of where a record comes from; Django tells the request with some of its own."""
    known = dict(get_contextvars())
    if request_id := getattr(getattr(record, "request", None), "request_id", ""):
        known.setdefault("request_id", request_id)
    if trace_id := spans.trace_id():
        known["trace_id"] = trace_id
    return known


def begin(**known: str) -> None:
    """A request or a task begins: its records say this much of it, and nothing of the one before."""
    clear_contextvars()
    bind_contextvars(**known)


def add(**known: str) -> None:
    """More is known of it."""
    bind_contextvars(**known)


def configuration(config: Config) -> dict[str, Any]:
    """What Django hands to logging. In JSON also what uvicorn and Celery log by themselves, warnings only:
    else each would write in a form of its own.
    """
    is_json = config.log_format == "json"
    formatter = {"()": JsonFormatter if is_json else TextFormatter, "secrets": secrets_of(config)}
    quiet = {"level": "WARNING", "handlers": [], "propagate": True}
    names = ("uvicorn", "uvicorn.error", "uvicorn.access", "celery", "kombu") if is_json else ()
    loggers = dict.fromkeys(names, quiet)
    for name in ("django.request", "uvicorn.error", outage.POOL):
        loggers[name] = {**loggers.get(name, {}), "filters": [outage.is_news]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": loggers,
        "root": {"handlers": ["stderr"], "level": config.log_level},
    }
