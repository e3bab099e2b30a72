"""Where the documents say what a finding means and what to do. Pure."""

from collections.abc import Mapping

RUNBOOK, OPERATING = "docs/runbook.md", "docs/operating.md"
BY_NAME: Mapping[str, str] = {
    **dict.fromkeys(
        ("mode", "secret key", "public address", "allowed hosts", "trusted proxies"), f"{OPERATING}#settings"
    ),
    "database": f"{RUNBOOK}#allotmentdatabasedown",
    "database disk": f"{RUNBOOK}#allotmentdatabasefull",
    "migrations": f"{OPERATING}#upgrading",
    **dict.fromkeys(("redis", "redis policy", "redis on disk", "processes"), f"{RUNBOOK}#allotmentredisdown"),
    **dict.fromkeys(("web", "worker", "beat", "watcher", "door"), f"{RUNBOOK}#allotmentprocessmissing"),
    "clock's work": f"{RUNBOOK}#allotmentclockstopped",
    "queue": f"{RUNBOOK}#allotmentqueuelag",
    **dict.fromkeys(("sealed texts", "old secret keys"), f"{OPERATING}#another-secret-key"),
    "tracing": f"{OPERATING}#tracing",
    "hold": f"{OPERATING}#backup-and-restore",
    "engineers": f"{OPERATING}#people",
    "clusters": f"{OPERATING}#first-start",
    **dict.fromkeys(("certificates", "certificate", "client"), f"{RUNBOOK}#allotmentcertificateends"),
    "watch": f"{RUNBOOK}#allotmentclustersilent",
    "telemetry": f"{RUNBOOK}#allotmenttelemetrylate",
    "ledger": f"{RUNBOOK}#allotmentledgerlate",
    "balance": f"{RUNBOOK}#allotmentledgerdoesnotbalance",
    "audit record": f"{RUNBOOK}#allotmentauditbroken",
    "check": f"{RUNBOOK}#allotmentselfcheckoverdue",
    "sweep": f"{RUNBOOK}#allotmentsweepbacklog",
    "": f"{OPERATING}#health",
}
"""Section by the name of a check; "": that of all others. Of `watch of north` and `queue urgent` the first
word counts.
"""
_OF = f"{RUNBOOK}#allotmentclusterincomplete"


def of(name: str) -> str:
    """The section for a finding of this name."""
    kind, _, rest = name.partition(" ")
    if name in BY_NAME:
        return BY_NAME[name]
    if kind in BY_NAME:
        return BY_NAME[kind]
    # Whatever else is of a cluster is a piece that it lacks.
    return _OF if rest.startswith("of ") else BY_NAME[""]
