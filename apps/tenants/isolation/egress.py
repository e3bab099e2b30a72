"""A tenant's list of networks and ports that its pods may reach: read strictly, written plainly. Pure."""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from apps.errors import FieldProblem, Invalid
from apps.ranges import PORT
from apps.tenants.specs import EgressPort, EgressRule

PROTOCOLS = ("TCP", "UDP", "SCTP")
MOST_RULES, MOST_PORTS = 50, 20


def parse(rows: Sequence[Any], pointer: str = "/spec/egress/allow") -> tuple[EgressRule, ...]:
    """Rule: `cidr` is a network without host bits, `ports` are protocol and port (null: every port).

    Raises Invalid that names every wrong place; at most 50 networks with 20 ports each.
    """
    wrong: list[FieldProblem] = []
    if len(rows) > MOST_RULES:
        raise Invalid([FieldProblem(pointer, "out_of_range", f"At most {MOST_RULES} networks.")])
    rules = [_rule(row, f"{pointer}/{place}", wrong) for place, row in enumerate(rows)]
    if wrong:
        raise Invalid(wrong)
    return tuple(rules)


def as_json(rules: Sequence[EgressRule]) -> list[dict[str, Any]]:
    """The list as it is stored and shown."""
    return [
        {"cidr": rule.cidr, "ports": [{"protocol": p.protocol, "port": p.port} for p in rule.ports]}
        for rule in rules
    ]


def as_lines(rules: Sequence[EgressRule]) -> str:
    """One network a line, as the form has it: `10.2.0.0/16 TCP/443 UDP`."""
    return "\n".join(" ".join([rule.cidr, *map(_word, rule.ports)]) for rule in rules)


def from_lines(text: str) -> list[dict[str, Any]]:
    """What the form's lines ask for, not yet judged; empty lines say nothing."""
    rows = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        cidr, *ports = line.split()
        rows.append({"cidr": cidr, "ports": [_port_of(word) for word in ports]})
    return rows


def _word(port: EgressPort) -> str:
    return port.protocol if port.port is None else f"{port.protocol}/{port.port}"


def _port_of(word: str) -> dict[str, Any]:
    protocol, _, number = word.partition("/")
    return {
        "protocol": protocol.upper(),
        "port": int(number) if number.isdecimal() and len(number) < 10 else number or None,
    }


def _rule(row: Any, pointer: str, wrong: list[FieldProblem]) -> EgressRule:
    given: Mapping[str, Any] = row if isinstance(row, Mapping) else {}
    strange = sorted(set(given) - {"cidr", "ports"})
    wrong += [FieldProblem(f"{pointer}/{name}", "unknown_field", "Known: cidr, ports.") for name in strange]
    cidr, ports = given.get("cidr"), given.get("ports") or ()
    try:
        cidr = str(ipaddress.ip_network(cidr if isinstance(cidr, str) else ""))
    except ValueError as error:
        wrong.append(FieldProblem(f"{pointer}/cidr", "invalid_value", f"Not a network: {error}."))
    if not isinstance(ports, Sequence) or isinstance(ports, str) or len(ports) > MOST_PORTS:
        wrong.append(FieldProblem(f"{pointer}/ports", "invalid_value", f"A list of at most {MOST_PORTS}."))
        ports = ()
    found = tuple(_port(port, f"{pointer}/ports/{place}", wrong) for place, port in enumerate(ports))
    return EgressRule(str(cidr), found)


def _port(row: Any, pointer: str, wrong: list[FieldProblem]) -> EgressPort:
    given: Mapping[str, Any] = row if isinstance(row, Mapping) else {}
    protocol, port = given.get("protocol", "TCP"), given.get("port")
    if set(given) - {"protocol", "port"} or protocol not in PROTOCOLS:
        words = f"A protocol of {', '.join(PROTOCOLS)} and a port."
        wrong.append(FieldProblem(pointer, "invalid_value", words))
    is_number = isinstance(port, int) and not isinstance(port, bool)
    if port is not None and not (is_number and PORT.holds(port)):
        wrong.append(
            FieldProblem(f"{pointer}/port", "out_of_range", f"A port from {PORT.least} to {PORT.most}.")
        )
    return EgressPort(str(protocol), port if is_number else None)
