"""The spec of a request as REST describes it, with the parser's own bounds. Pure.

`apps.workloads.spec.parsing` checks it; a test feeds it every member and bound of this.
"""

from typing import Annotated, NotRequired, TypedDict

from apps import ranges
from apps.quotas.specs import Priority
from apps.web.shapes.typed import keywords
from apps.workloads import registry
from apps.workloads.spec import parsing
from apps.workloads.spec.bodies import with_blocks
from apps.workloads.spec.field_reader import bounded
from apps.workloads.specs import IdleAction, Kind


class VolumeWish(TypedDict):
    """A volume claim that outlives every stop."""

    name: Annotated[
        str,
        keywords(pattern=f"^{parsing.VOLUME.pattern}$"),
        "Up to 20 of a-z, 0-9 and -, starting with a letter.",
    ]
    size: Annotated[str, "A Kubernetes quantity from 1Mi to 1Pi, such as 10Gi."]
    mount_path: Annotated[
        str, keywords(pattern=f"^{parsing.MOUNT.pattern}$"), "An absolute path, such as /data."
    ]


class IdleWish(TypedDict):
    """A workload's own idle policy."""

    action: IdleAction
    for_seconds: NotRequired[
        Annotated[int | None, bounded(ranges.OWN_IDLE_SECONDS), "Null: as long as its team's policy says."]
    ]


class _OfEveryKind(TypedDict):
    kind: Kind
    offer: Annotated[str, keywords(pattern=f"^{parsing.OFFER.pattern}$"), "An offer's slug."]
    count: NotRequired[
        Annotated[
            int | None,
            bounded(ranges.DEVICES_PER_POD),
            "Devices per pod; 1 unless named, and 0 on an offer without a GPU.",
        ]
    ]
    image: NotRequired[
        Annotated[str | None, "An OCI image reference; a job needs one, a notebook has a default."]
    ]
    command: NotRequired[Annotated[list[str] | None, keywords(maxItems=parsing.COMMAND.most)]]
    args: NotRequired[Annotated[list[str] | None, keywords(maxItems=parsing.ARGS.most)]]
    env: NotRequired[
        Annotated[
            dict[str, str] | None,
            keywords(
                maxProperties=parsing.MOST_VARIABLES,
                propertyNames={"pattern": f"^{parsing.VARIABLE.pattern}$"},
            ),
        ]
    ]
    cpu: NotRequired[
        Annotated[str | None, "A Kubernetes quantity, per pod; what comes with the offer unless named."]
    ]
    memory: NotRequired[
        Annotated[str | None, "A Kubernetes quantity, per pod; what comes with the offer unless named."]
    ]
    volumes: NotRequired[
        Annotated[
            list[VolumeWish] | None,
            keywords(maxItems=parsing.MOST_VOLUMES),
            "A notebook that names none gets one for its home.",
        ]
    ]
    priority: NotRequired[Priority | None]
    suspend: NotRequired[Annotated[bool | None, "true: made but not started."]]
    max_wait_seconds: NotRequired[
        Annotated[
            int | None,
            bounded(ranges.WAIT_SECONDS),
            "0: refused unless it starts now. Of a notebook or service its first wait alone.",
        ]
    ]
    max_run_seconds: NotRequired[Annotated[int | None, bounded(ranges.RUN_SECONDS)]]
    idle_policy: NotRequired[IdleWish | None]


WorkloadWish = with_blocks(
    "WorkloadWish", _OfEveryKind, lambda kind: NotRequired[registry.of(kind).wish | None]
)
WorkloadWish.__doc__ = "What is asked for. A null is the same as leaving out."
