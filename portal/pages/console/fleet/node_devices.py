"""What a node's devices did last, on the console's page of the node."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

from apps.accounts.specs import Actor
from apps.metering.telemetry.rules import xids
from apps.metering.telemetry.selectors import latest
from apps.metering.telemetry.selectors.latest import RATES, RATIOS, Last
from portal.pages.team.usage.heat import short_name

UNKNOWN = "unknown"
Cells = list[tuple[str, str]]
MAIN = (
    "SM active",
    "Tensor active",
    "DRAM active",
    "nvidia-smi says",
    "Power",
    "Temperature",
    "Throttled by",
)
"""What one looks for first, in this order; the other fields have a table of their own, below."""


def page(actor: Actor, node: str, *, now: datetime) -> dict[str, Any]:
    """Context of `console/fleet/lately.html`, read only where the template asks for it."""

    @cache
    def rows() -> list[dict[str, Any]]:
        return [_row(each) for each in latest.of_node(actor, node, now=now)]

    return {"lately": rows, "now": now}


def _row(last: Last) -> dict[str, Any]:
    device = last.device
    name = short_name(device.uuid, "").strip()
    instance = f"{device.profile} {device.gpu_instance}" if device.gpu_instance >= 0 else ""
    cells = dict(_cells(last))
    main = [(word, cells.pop(word)) for word in MAIN]
    told = {"name": name, "instance": instance, "at": last.sample and last.sample.ts}
    return {**told, "main": main, "others": list(cells.items())}


def _cells(last: Last) -> Cells:
    found = [(word, _said(last.ratio(name), lambda v: f"{100 * v:.1f} %")) for name, word in RATIOS.items()]
    found.append(("nvidia-smi says", _said(last.number("smi"), lambda v: f"{v:.0f} %")))
    found += [
        (word, _said(last.number(name, 10**6), lambda v: f"{v:,.1f} MB/s")) for name, word in RATES.items()
    ]
    reasons = last.throttled
    return [
        *found,
        ("SM clock", _said(last.number("sm_clock_mhz"), lambda v: f"{v:,.0f} MHz")),
        ("Throttled by", UNKNOWN if reasons is None else ", ".join(reasons) or "nothing"),
        ("Temperature", _said(last.number("celsius"), lambda v: f"{v:.0f} °C")),
        ("Power", _said(last.number("power_mw", 1000), lambda v: f"{v:,.0f} W")),
        ("Energy counter", _said(last.number("energy_mj", 3_600_000_000), lambda v: f"{v:,.2f} kWh")),
        ("XID", _said(last.number("xid"), lambda v: xids.words(int(v)) if v else "none")),
    ]


def _said(value: float | None, words: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else words(value)
