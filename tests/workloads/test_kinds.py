"""A kind is one module beside the others: one that is written here is asked for, made and typed at once."""

import os
import subprocess
import sys
from pathlib import Path

from apps.workloads import registry
from apps.workloads.specs import Kind

MODULE = '''
"""A bench: a Job that measures something so many times. Pure."""

from dataclasses import dataclass
from typing import NotRequired, TypedDict

from apps.ranges import RETRIES
from apps.workloads.manifests import pods
from apps.workloads.registry import COMMAND, Definition, FormField, Takes


@dataclass(frozen=True)
class BenchBlock:
    rounds: int = 1

    @property
    def pods(self) -> int:
        return 1


class BenchWish(TypedDict):
    """What only a bench has."""

    rounds: NotRequired[int | None]


class BenchBlockBody(TypedDict):
    """What only a bench has."""

    rounds: int


def block_of(read):
    read.only({"rounds"})
    return BenchBlock(read.whole("rounds", default=1, within=RETRIES))


def build(spec, place):
    job = pods.manifest("batch/v1", "Job", place)
    container = pods.container(spec, place, home=pods.HOME)
    container["env"].append({"name": "ROUNDS", "value": str(spec.block.rounds)})
    job["spec"] = {"template": pods.template(spec, place, container, restart="Never")}
    return [pods.queued(job, spec, place)]


KIND = Definition(
    order=9, icon="gauge", about="Measures.", controller="Job", wish=BenchWish, body=BenchBlockBody,
    parse=block_of, as_json=lambda block: {"rounds": block.rounds}, build=build,
    fields=(COMMAND, FormField("rounds", "bench/rounds", "Rounds", initial="1", takes=Takes.NUMBER)),
)
'''

ASKED = """
import os, sys
import apps.workloads.kinds
apps.workloads.kinds.__path__.append(sys.argv[1])
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
import django
django.setup()
from apps.errors import Invalid
from apps.web.shapes.typed import Shapes
from apps.workloads import registry
from apps.workloads.manifests import rendering
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.spec.bodies import WorkloadSpecBody
from apps.workloads.spec.wishes import WorkloadWish
from apps.workloads.specs import Kind, PlacementSpec
from portal.pages.team.workloads import workload_forms
common = {"kind": "bench", "offer": "h100", "image": "a/b:1", "cpu": "1", "memory": "1Gi"}
body = {**common, "bench": {"rounds": 3}}
spec = parsing.parse(body)
assert parsing.parse(parsing.as_json(spec)) == spec
place = PlacementSpec("1", "b-aaaaaaaaaa", "vision", "vision-a", "gpu", "allotment.dev/h100", 1)
(job,) = rendering.render(spec, place)
assert {"name": "ROUNDS", "value": "3"} in job["spec"]["template"]["spec"]["containers"][0]["env"]
for shape in (WorkloadWish, WorkloadSpecBody):
    assert "rounds" in str(Shapes(lambda _name, _shape, make: make()).of(shape)["properties"]["bench"])
form = workload_forms.WorkloadForm({"image": "a/b:1", "rounds": "5"}, kind=Kind("bench"), offer="h100")
assert form.is_valid() and form.spec.block.rounds == 5
wrong = workload_forms.WorkloadForm({"image": "a/b:1", "rounds": "x"}, kind=Kind("bench"), offer="h100")
assert list(wrong.errors) == ["rounds"]
assert ("bench", "Bench") in list(Workload._meta.get_field("kind").flatchoices)
assert registry.in_order()[-1] == "bench"
print("asked for, made, told and typed")
"""


def test_a_module_beside_the_others_is_a_kind(tmp_path: Path) -> None:
    (tmp_path / "bench.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(tmp_path)],
        check=False, capture_output=True, text=True, env=os.environ.copy(),
    )  # fmt: skip
    assert done.stdout.strip() == "asked for, made, told and typed", done.stderr


def test_each_kind_has_its_place_and_what_all_have() -> None:
    assert [str(kind) for kind in registry.in_order()] == ["notebook", "job", "training", "service"]
    assert [kind.label for kind in registry.in_order()] == ["Notebook", "Job", "Training", "Service"]
    for kind in Kind:
        definition = registry.of(kind)
        assert definition.about
        assert len({field.name for field in definition.fields}) == len(definition.fields)
        block = definition.parse.__module__
        assert block == f"apps.workloads.kinds.{kind}"
