"""A job: a batch/v1 Job that runs to its end, once, several times, or for each item of an array. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, NotRequired, TypedDict

from apps import ranges
from apps.ranges import COMPLETIONS, FAILED_ITEMS, ITEMS, RETRIES, Range
from apps.web.shapes.typed import keywords
from apps.workloads import items
from apps.workloads.manifests import pods
from apps.workloads.manifests.pods import Manifest
from apps.workloads.registry import COMMAND, Definition, FormField, Takes
from apps.workloads.spec.field_reader import Reader, bounded
from apps.workloads.specs import CompletionMode, JobBlock, PlacementSpec, WorkloadSpec

CONTROLLER = "Job"
FIELDS = frozenset(
    {"completions", "parallelism", "backoff_limit", "completion_mode", "max_failed_indexes", "items"}
)
ITS_OWN = ("JOB_COMPLETION_INDEX", "ALLOTMENT_ITEMS")
"""Variables by which a program of an array learns its item; a request may not set them."""
FILLED_IN = f"$({ITS_OWN[0]})"
LONGEST_ITEMS = 4096
FIXED = ("completions", "completionMode", "backoffLimitPerIndex")
"""Fields of an array that never change on its Job: what changes them takes a new one."""
_LINE = (
    "left=$ALLOTMENT_ITEMS;"
    ' while [ "$JOB_COMPLETION_INDEX" -gt 0 ]; do'
    " left=${left#*,}; JOB_COMPLETION_INDEX=$((JOB_COMPLETION_INDEX - 1)); done;"
    ' export JOB_COMPLETION_INDEX="${left%%,*}"; exec "$@"'
)
AS_ITEM = ("sh", "-c", _LINE, "sh")
"""Starts the command that follows with its item's number where Kubernetes put the index: POSIX sh alone."""


class JobWish(TypedDict):
    """What only a job has, in the words of batch/v1 Job."""

    completions: NotRequired[
        Annotated[
            int | None, bounded(ranges.COMPLETIONS), "1 unless named; more are an array, of at most 1,000."
        ]
    ]
    parallelism: NotRequired[
        Annotated[int | None, bounded(ranges.COMPLETIONS), "1 unless named; at most completions."]
    ]
    backoff_limit: NotRequired[
        Annotated[int | None, bounded(ranges.RETRIES), "0 unless named; of an array for each item."]
    ]
    completion_mode: NotRequired[
        Annotated[CompletionMode | None, "Indexed where completions is more than 1, unless named."]
    ]
    max_failed_indexes: NotRequired[
        Annotated[
            int | None, bounded(ranges.FAILED_ITEMS), "Of an array; at most completions. Null: none ends it."
        ]
    ]
    items: NotRequired[
        Annotated[
            str | None,
            keywords(maxLength=LONGEST_ITEMS),
            "Of an array: only these items of a larger one, such as 3,7-9. It needs a command.",
        ]
    ]


class JobBlockBody(TypedDict):
    """What only a job has, in the words of batch/v1 Job."""

    completions: Annotated[int, "How many runs end well before it is done; of an array its items."]
    parallelism: Annotated[int, "How many run at once; each holds `count` devices."]
    backoff_limit: Annotated[int, "How often what fails is tried again: of an array each item."]
    completion_mode: Annotated[CompletionMode, "Indexed: an array; each item has a number of its own."]
    max_failed_indexes: Annotated[int | None, "More failed items than this end an array. Null: none do."]
    items: Annotated[str | None, "Which items of a larger array these are, such as 3,7-9. Null: from 0 on."]


def block_of(read: Reader) -> JobBlock:
    """The block, or problems at its fields.

    RULE: more than one run is an array unless the request says NonIndexed; an array has at most 1,000 items.
    Named items are all there are: how many they are may be left out.
    """
    read.only(FIELDS)
    named = _items(read)
    completions = read.whole("completions", default=len(named) or 1, within=COMPLETIONS)
    mode = _mode(read, CompletionMode.ITEMS if completions > 1 or named else CompletionMode.RUNS)
    if mode is CompletionMode.ITEMS and not ITEMS.holds(completions):
        words = f"An array has at most {ITEMS.most} items: make several, or say completion_mode NonIndexed."
        read.refuse("completions", words, code="out_of_range")
    if named and completions != len(named):
        read.refuse("completions", f"items names {len(named)}: leave completions out.")
    if mode is CompletionMode.RUNS:
        _refuse_what_arrays_have(read)
    return JobBlock(
        completions=completions,
        parallelism=read.whole("parallelism", default=1, within=Range(1, completions)),
        backoff_limit=read.whole("backoff_limit", default=0, within=RETRIES),
        completion_mode=mode,
        max_failed_indexes=_most_failed(read, completions),
        items=named,
    )


def body_of(block: JobBlock) -> JobBlockBody:
    """The JSON of the block, complete."""
    return {
        "completions": block.completions,
        "parallelism": block.parallelism,
        "backoff_limit": block.backoff_limit,
        "completion_mode": block.completion_mode,
        "max_failed_indexes": block.max_failed_indexes,
        "items": items.text(block.items) or None,
    }


def as_made(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored block in today's words. RULE: a job that was stored before there were arrays keeps its runs
    alike: its Job is there, and the completion mode of a Job never changes.
    """
    return {"completion_mode": str(CompletionMode.RUNS), **block}


def refuse_what_hides_items(read: Reader, block: JobBlock, spec: WorkloadSpec) -> None:
    """Refuse what would hide from a program which item it is: its variables set by the request; and of named
    items a command that cannot be started with their numbers.
    """
    if not block.is_array:
        return
    variables = read.part("env")
    for name in ITS_OWN:
        if name in variables.fields:
            variables.refuse(name, f"In an array only the platform sets {name}.", code="reserved_name")
    if block.items and not read.fields.get("command"):
        words = "Name the command too: it is started with the item's own number, and the image's cannot be."
        read.part("job").refuse("items", words)
    if block.items and any(FILLED_IN in word for word in (*spec.command, *spec.args)):
        words = f"Kubernetes fills in {FILLED_IN} with another number: let the program read the variable."
        read.refuse("command", words)


def _refuse_what_arrays_have(read: Reader) -> None:
    for name in ("max_failed_indexes", "items"):
        if read.has(name):
            read.refuse(name, f"Only an array has {name}: say completion_mode Indexed.")


def _most_failed(read: Reader, completions: int) -> int | None:
    most = read.optional_whole("max_failed_indexes", within=FAILED_ITEMS)
    if most is not None and most > completions:
        read.refuse("max_failed_indexes", f"At most the {completions} items there are.", code="out_of_range")
    return most


def usual_mode(document: Mapping[str, Any]) -> CompletionMode:
    """Of a request that does not say: several runs are an array."""
    return CompletionMode.ITEMS if document["job"]["completions"] > 1 else CompletionMode.RUNS


def _mode(read: Reader, usual: CompletionMode) -> CompletionMode:
    value = read.text("completion_mode", default=str(usual), longest=16)
    if value in set(CompletionMode):
        return CompletionMode(value)
    read.refuse("completion_mode", f"One of {', '.join(CompletionMode)}.")
    return usual


def _items(read: Reader) -> tuple[int, ...]:
    if not read.has("items"):
        return ()
    asked = read.text("items", longest=LONGEST_ITEMS).replace(" ", "")
    try:
        return items.numbers(asked, most=ITEMS.most - 1)
    except ValueError as error:
        read.refuse("items", str(error))
        return ()


def build(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """RULE: `spec.suspend` is never applied.

    Kueue suspends a Job on creation and owns that field; applying it would kill a running pod and remake it.
    `activeDeadlineSeconds` stands on the Job, not on its pods: there the clock starts at each admission, and
    the value may be raised while it runs, as extending the lease does.
    """
    block = spec.job or JobBlock()
    container = pods.container(_as_items(spec, block), place, home=pods.HOME)
    job = pods.manifest("batch/v1", CONTROLLER, place)
    job["spec"] = {
        "completions": block.completions,
        "parallelism": spec.pods,
        **_failing(block),
        "template": pods.template(spec, place, container, restart="Never"),
    }
    if spec.max_run_seconds is not None:
        job["spec"]["activeDeadlineSeconds"] = spec.max_run_seconds
    return [pods.queued(job, spec, place, fixed=FIXED if block.is_array else ())]


def _failing(block: JobBlock) -> Manifest:
    """How often what fails is tried again. RULE: each item of an array has tries of its own, so that one bad
    item never ends the others.
    """
    if not block.is_array:
        return {"backoffLimit": block.backoff_limit}
    found: Manifest = {"completionMode": "Indexed", "backoffLimitPerIndex": block.backoff_limit}
    if block.max_failed_indexes is not None:
        found["maxFailedIndexes"] = block.max_failed_indexes
    return found


def _as_items(spec: WorkloadSpec, block: JobBlock) -> WorkloadSpec:
    """The request with its items' numbers put in. RULE: an index always counts from 0, so a program that
    reads its index would run other items than those that were named; it gets the item's number instead.
    """
    if not block.items:
        return spec
    named = ",".join(str(item) for item in block.items)
    return replace(spec, env={**spec.env, ITS_OWN[1]: named}, command=(*AS_ITEM, *spec.command))


KIND = Definition(
    order=2,
    icon="briefcase",
    about="A command that runs to its end: training, a batch, a sweep. It waits its turn and starts "
    "by itself.",
    controller=CONTROLLER,
    wish=JobWish,
    body=JobBlockBody,
    parse=block_of,
    as_json=body_of,
    build=build,
    refuse=refuse_what_hides_items,
    reserves=ITS_OWN,
    as_made=as_made,
    several="parallelism",
    fields=(
        COMMAND,
        FormField("completions", "job/completions", "Items", "More than 1: an array, numbered from 0.", "1",
                  Takes.NUMBER, unless="items"),
        FormField("parallelism", "job/parallelism", "At once", "Each holds its devices.", "1", Takes.NUMBER),
        FormField("retries", "job/backoff_limit", "Tries again", "Each item that fails.", "0", Takes.NUMBER),
        FormField("items", "job/items", "Only items", "Of a larger array, such as 3, 7-9. Empty: all.",
                  longest=LONGEST_ITEMS, is_short=False, is_advanced=True),
        FormField("max_failed_indexes", "job/max_failed_indexes", "Give up after",
                  "More failed items end the array. Empty: none do.", takes=Takes.NUMBER,
                  is_short=False, is_advanced=True),
        FormField("completion_mode", "job/completion_mode", "Several are", takes=Takes.CHOICE,
                  choices=(("", "an array"), *CompletionMode.choices()), usual=usual_mode,
                  is_short=False, is_advanced=True),
    ),
)  # fmt: skip
