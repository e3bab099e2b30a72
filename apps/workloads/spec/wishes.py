"""The spec of a request as REST describes it, with the parser's own bounds. Pure.

`apps.workloads.spec.parsing` checks it; a test feeds it every member and bound of this.
"""

from typing import Annotated, NotRequired, TypedDict

from apps import ranges
from apps.quotas.specs import Priority
from apps.web.shapes.typed import Keywords, keywords
from apps.workloads.spec import parsing
from apps.workloads.specs import Ide, IdleAction, Kind


def _within(bounds: ranges.Range) -> Keywords:
    return keywords(minimum=bounds.least, maximum=bounds.most)


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


class NotebookWish(TypedDict):
    """What only a notebook has."""

    ide: NotRequired[Ide | None]


class JobWish(TypedDict):
    """What only a job has, in the words of batch/v1 Job."""

    completions: NotRequired[Annotated[int | None, _within(ranges.COMPLETIONS), "1 unless named."]]
    parallelism: NotRequired[
        Annotated[int | None, _within(ranges.COMPLETIONS), "1 unless named; at most completions."]
    ]
    backoff_limit: NotRequired[Annotated[int | None, _within(ranges.RETRIES), "0 unless named."]]


class IdleWish(TypedDict):
    """A workload's own idle policy."""

    action: IdleAction
    for_seconds: NotRequired[
        Annotated[int | None, _within(ranges.IDLE_FOR_SECONDS), "Null: as long as its team's policy says."]
    ]


class WorkloadWish(TypedDict):
    """What is asked for. A null is the same as leaving out."""

    kind: Kind
    offer: Annotated[str, keywords(pattern=f"^{parsing.OFFER.pattern}$"), "An offer's slug."]
    count: NotRequired[
        Annotated[int | None, _within(ranges.DEVICES_PER_POD), "Devices per pod; 1 unless named."]
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
        Annotated[int | None, _within(ranges.WAIT_SECONDS), "0: refused unless it starts now."]
    ]
    max_run_seconds: NotRequired[Annotated[int | None, _within(ranges.RUN_SECONDS)]]
    idle_policy: NotRequired[IdleWish | None]
    notebook: NotRequired[NotebookWish | None]
    job: NotRequired[JobWish | None]
