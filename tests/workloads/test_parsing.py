"""Whatever is sent as a `spec` is a valid request or refused with pointers; never another exception."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.errors import FieldProblem, Invalid
from apps.workloads import registry
from apps.workloads.spec import parsing
from apps.workloads.specs import HOME_VOLUME, Kind, WorkloadSpec
from portal.api.base.writing import merged
from tests.factories import notebook_body
from tests.sample import examples
from tests.workloads.asking import problems_of

JOB = {"kind": "job", "offer": "h100-whole", "image": "python:3.13"}


def test_a_notebook_gets_its_defaults() -> None:
    spec = parsing.parse({"kind": "notebook", "offer": "h100-1g-10gb"})
    assert spec.notebook is not None
    assert spec.image == spec.notebook.ide.image
    assert spec.volumes == (HOME_VOLUME,)
    assert (spec.count, spec.cpu_millis, spec.memory_bytes, spec.job) == (1, 0, 0, None)


def test_a_notebook_may_have_no_volume() -> None:
    assert parsing.parse(notebook_body(volumes=[])).volumes == ()


def test_quantities_become_exact_numbers() -> None:
    spec = parsing.parse(notebook_body(cpu="0.5", memory="1536Mi"))
    assert (spec.cpu_millis, spec.memory_bytes) == (500, 1536 * 1024**2)


def test_a_job_counts_the_devices_of_all_pods_that_run_at_once() -> None:
    spec = parsing.parse({**JOB, "count": 2, "job": {"completions": 9, "parallelism": 3}})
    assert (spec.kind, spec.pods, spec.devices) == (Kind.JOB, 3, 6)


def test_open_figures_are_filled_from_the_offer() -> None:
    spec = parsing.parse({"kind": "notebook", "offer": "x", "count": 2})
    full = spec.completed_with(cpu_millis=4000, memory_bytes=1024, run_seconds=600)
    assert (full.cpu_millis, full.memory_bytes, full.max_run_seconds) == (8000, 2048, 600)


def test_a_job_has_no_lease_of_its_own() -> None:
    spec = parsing.parse(JOB).completed_with(cpu_millis=1, memory_bytes=1, run_seconds=None)
    assert spec.max_run_seconds is None
    assert [str(kind) for kind in registry.in_order() if registry.of(kind).is_leased] == ["notebook"]


def test_every_wrong_field_is_named_at_once() -> None:
    wrong = problems_of(
        {"kind": "notebok", "ofer": "a", "count": -1, "memory": "1Gi ", "job": {"completions": 1}}
    )
    assert wrong == {
        "/spec/kind": "invalid_value",
        "/spec/ofer": "unknown_field",
        "/spec/offer": "required",
        "/spec/count": "out_of_range",
        "/spec/memory": "invalid_value",
        "/spec/job": "invalid_value",
    }


def test_an_unknown_field_names_the_nearest_one() -> None:
    with pytest.raises(Invalid, match=r"Did you mean offer\?"):
        parsing.parse({**notebook_body(), "ofer": "a"})


@pytest.mark.parametrize(
    "name", ["NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD", "ld_preload"]
)
def test_variables_that_steer_driver_or_loader_are_reserved(name: str) -> None:
    assert problems_of(notebook_body(env={name: "all"})) == {f"/spec/env/{name}": "reserved_name"}


@pytest.mark.parametrize("name", ["A=B", "", "1A", "a b", "a/b~c", "\x00", "é", "A" * 129])
def test_a_variable_has_a_plain_name(name: str) -> None:
    (pointer,) = problems_of(notebook_body(env={name: "x"}))
    assert pointer.startswith("/spec/env/")
    assert "\x00" not in pointer


def test_variables_keep_newlines_and_dollars_as_they_are() -> None:
    env = {"SCRIPT": "a\nb $(HOME)"}
    assert parsing.parse(notebook_body(env=env)).env == env


@pytest.mark.parametrize(
    "image",
    ["a:b@sha256:x", "../a", "a b", "a@sha256:" + "0" * 63, "a" * 300, "169.254.169.254/a", "A/../b", ":1"],
)
def test_a_hostile_image_is_refused(image: str) -> None:
    assert problems_of(notebook_body(image=image)).keys() == {"/spec/image"}


@pytest.mark.parametrize(
    "image",
    ["python", "registry.example:5000/team/a:1", "ghcr.io/a/b@sha256:" + "0" * 64, "jupyter/pytorch:1"],
)
def test_an_image_reference_is_taken(image: str) -> None:
    assert parsing.parse(notebook_body(image=image)).image == image


QUANTITIES: list[Any] = [
    "-1",
    "0",
    "1e309",
    "NaN",
    "Infinity",
    "1Gi ",
    "1e3m",
    str(2**63),
    "١",
    "1_000",
    "",
    1,
    True,
    [],
]


@pytest.mark.parametrize("value", QUANTITIES)
@pytest.mark.parametrize("field", ["cpu", "memory"])
def test_a_hostile_quantity_is_refused(field: str, value: Any) -> None:
    assert problems_of(notebook_body(**{field: value})).keys() == {f"/spec/{field}"}


@pytest.mark.parametrize(
    "path", ["data", "/", "/a/../b", "/etc", "/etc/x", "/dev/x", "/a:b", "/a//b", "/var/run/x"]
)
def test_a_hostile_mount_is_refused(path: str) -> None:
    volume = {"name": "data", "size": "1Gi", "mount_path": path}
    assert problems_of(notebook_body(volumes=[volume])).keys() == {"/spec/volumes/0/mount_path"}


def test_two_volumes_share_neither_name_nor_place() -> None:
    volume = {"name": "data", "size": "1Gi", "mount_path": "/data"}
    assert problems_of(notebook_body(volumes=[volume, volume])).keys() == {
        "/spec/volumes/1/name",
        "/spec/volumes/1/mount_path",
    }


@pytest.mark.parametrize("name", parsing.LATER)
def test_a_field_of_a_later_version_is_refused_and_null_is_not(name: str) -> None:
    assert problems_of({**JOB, name: "x"}) == {f"/spec/{name}": "invalid_value"}
    assert parsing.parse({**JOB, name: None}).kind is Kind.JOB


def test_a_merge_patch_removes_replaces_and_merges() -> None:
    found = merged({"env": {"A": "1", "B": "2"}, "count": 1}, {"env": {"A": None, "C": "3"}, "count": 2})
    assert found == {"env": {"B": "2", "C": "3"}, "count": 2}


@pytest.mark.parametrize(
    "document", [None, [], "x", 1, {"kind": []}, {"kind": {}}, {"env": []}, {"volumes": {}}]
)
def test_a_document_of_the_wrong_shape_is_refused(document: object) -> None:
    assert all(pointer.startswith("/spec") for pointer in problems_of(document))


_HOSTILE_TEXT = st.text() | st.sampled_from(
    [
        "kube-system",
        "a" * 64,
        "x\u202e",
        "\ud800",
        "{{7*7}}",
        "<svg onload=x>",
        "\x1b[31m",
        "a in (b),c",
        "xn--a",
        "..",
        "🦄",
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _HOSTILE_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_HOSTILE_TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    base=st.sampled_from([notebook_body(), JOB]),
    changes=st.dictionaries(
        st.sampled_from([*parsing.FIELDS, *parsing.LATER, "ofer"]) | _HOSTILE_TEXT, _JSON, max_size=4
    ),
)
def test_hostile_documents_are_refused_with_a_pointer_or_valid(
    base: dict[str, Any], changes: dict[str, Any]
) -> None:
    spec, problems = read({**base, **changes})
    if spec is None:
        assert problems
        assert all(problem.pointer.startswith("/spec") and problem.detail for problem in problems)
        json.dumps([problem.pointer for problem in problems]).encode()
    else:
        assert parsing.parse(json.loads(json.dumps(parsing.as_json(spec)))) == spec


def read(document: dict[str, Any]) -> tuple[WorkloadSpec | None, tuple[FieldProblem, ...]]:
    try:
        return parsing.parse(document), ()
    except Invalid as refused:
        return None, refused.problems


@given(
    count=st.integers(1, 8),
    cpu=st.integers(1, 64_000),
    memory=st.integers(1024**2, 1024**4),
    lease=st.none() | st.integers(60, 10**6),
    suspend=st.booleans(),
)
def test_a_spec_survives_the_way_through_json(
    count: int, cpu: int, memory: int, lease: int | None, *, suspend: bool
) -> None:
    body = notebook_body(
        count=count, cpu=f"{cpu}m", memory=str(memory), max_run_seconds=lease, suspend=suspend
    )
    spec = parsing.parse(body)
    assert (spec.cpu_millis, spec.memory_bytes) == (cpu, memory)
    assert parsing.parse(parsing.as_json(spec)) == spec
