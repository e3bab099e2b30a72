"""The Gateway that leads browsers straight to what people open, and the door that it asks. Pure."""

from dataclasses import dataclass

DOORS_OWN = "/.allotment"
"""Below which the addresses on a workload's host are the door's own."""


@dataclass(frozen=True)
class GatewayPlace:
    """`namespace` and `name` of the Gateway, the workload's own `host` without a port, and the door's Service
    with the port that takes requests and the port that only judges them.
    """

    namespace: str
    name: str
    host: str
    door: str
    door_port: int
    check_port: int
