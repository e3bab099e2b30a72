"""Templates: typed parameters, what a version becomes, who may use it, and what was made from it."""

from decimal import Decimal
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.quotas.specs import Priority
from apps.tenants.specs import TrustLevel
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.rules import comparing, parameters, reading, source
from apps.workloads.templates.rules.parameters import Format, Parameter, ParameterType, Unit
from apps.workloads.templates.rules.rendering import Definition
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.selectors.catalogue import Audience
from apps.workloads.templates.selectors.experience import experience_of
from apps.workloads.templates.services import keeping, making, shipping
from apps.workloads.templates.services.keeping import Entry
from apps.workloads.templates.services.making import Wish
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_cores, make_quota, make_template

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

HOURS = Parameter("hours", "Stops after", ParameterType.INTEGER, unit=Unit.HOURS, least=1, most=24, default=8)
RATE = Parameter("rate", "Learning rate", ParameterType.NUMBER, least=0, most=1)
SIZE = Parameter("size", "Model", choices=("small", "large"), default="small")
FAST = Parameter("fast", "Mixed precision", ParameterType.FLAG, default=True)
TEXT = Parameter("note", "Note", default="", longest=5)
ALL = (HOURS, RATE, SIZE, FAST, TEXT)
JOB: dict[str, Any] = {"kind": "job", "offer": "h100-1g-10gb", "image": "python:3.13"}
NUMBER = {"name": "x", "type": "integer"}
VALUES: list[Any] = [
    0, 1, 8, 24, 25, -1, 1.5, 0.5, 1.0, 10**30, float("nan"), float("inf"), True, False, "", "8", "small",
    "x" * 6, "a\x00b", [], {}, [8],
]  # fmt: skip


def is_json(of: Parameter, value: Any) -> bool:
    """JSON has no NaN, and a text no NUL that a database keeps; 1.0 is whole in JSON Schema, not here."""
    if isinstance(value, float):
        return abs(value) < float("inf") and not (of is HOURS and value.is_integer())
    return not (isinstance(value, str) and "\x00" in value)


@pytest.mark.parametrize("of", ALL, ids=lambda of: of.name)
def test_what_the_schema_refuses_the_rules_refuse_and_the_other_way_round(of: Parameter) -> None:
    judge = jsonschema.Draft202012Validator(parameters.schema([of])["properties"][of.name])
    apart = [
        value
        for value in VALUES
        if is_json(of, value) and judge.is_valid(value) is bool(parameters.wrong(of, value))
    ]
    assert apart == []
    assert parameters.wrong(of, float("nan"))


def test_every_wrong_value_is_named_at_once_with_its_range_and_unit() -> None:
    with pytest.raises(Invalid) as refused:
        parameters.checked(ALL, {"hours": 25, "size": "huge", "hour": 1})
    told = {problem.pointer: (problem.code, problem.detail) for problem in refused.value.problems}
    assert told == {
        "/parameters/hour": ("unknown_field", "Did you mean hours?"),
        "/parameters/hours": ("out_of_range", "From 1 to 24 hours."),
        "/parameters/rate": ("required", "Learning rate is required."),
        "/parameters/size": ("invalid_value", "One of small, large."),
    }
    assert parameters.checked(ALL, {"rate": 0.1, "size": None})["size"] == "small"


def version(given: list[dict[str, Any]], **workload: Any) -> Definition:
    return reading.definition_of(given, {**JOB, **workload})


def test_units_become_seconds_and_quantities_and_an_environment_gets_the_plain_value() -> None:
    found = version(
        [
            {"name": "hours", "type": "integer", "unit": "hours"},
            {"name": "minutes", "type": "number", "unit": "minutes"},
            {"name": "memory", "type": "integer", "unit": "GiB"},
            {"name": "cores", "type": "integer", "unit": "cores"},
            {"name": "fast", "type": "boolean"},
            {"name": "note", "default": ""},
        ],
        max_run_seconds="{{hours}}",
        max_wait_seconds="{{ minutes }}",
        memory="{{memory}}",
        cpu="{{cores}}",
        priority="{{note}}",
        env={"HOURS": "{{hours}}", "FAST": "{{fast}}", "NOTE": "{{note}}"},
    )
    spec = parsing.parse(
        found.spec({"hours": 2, "minutes": 1.5, "memory": 16, "cores": 4, "fast": True, "note": ""})
    )
    assert (spec.max_run_seconds, spec.max_wait_seconds) == (7200, 90)
    assert (spec.memory_bytes, spec.cpu_millis) == (16 * 1024**3, 4000)
    assert spec.env == {"HOURS": "2", "FAST": "true", "NOTE": ""}
    assert spec.priority is Priority.BATCH, "an empty text leaves its field out"


def test_a_value_is_never_read_as_part_of_a_command() -> None:
    found = version(
        [{"name": "shard"}], command=["sh", "-c", "work --shard {{shard}}"], env={"SHARD": "{{shard}}"}
    )
    spec = found.spec({"shard": "; rm -rf /"})
    assert spec["command"][-1] == "work --shard {{shard}}"
    assert spec["env"] == {"SHARD": "; rm -rf /"}


@pytest.mark.parametrize(
    ("given", "workload", "pointer"),
    [
        ([{"name": "x"}], {}, "/parameters/0/name"),
        ([], {"max_run_seconds": "{{hours}}"}, "/workload/max_run_seconds"),
        ([{"name": "kind"}], {"kind": "{{kind}}"}, "/workload/kind"),
        ([{**NUMBER, "default": 300, "maximum": 8}], {"count": "{{x}}"}, "/parameters/0/default"),
        ([{**NUMBER, "minimum": 9, "maximum": 8}], {"count": "{{x}}"}, "/parameters/0/maximum"),
        ([{"name": "x", "unit": "hours"}], {"env": {"X": "{{x}}"}}, "/parameters/0/unit"),
        ([{**NUMBER, "format": "offer"}], {"count": "{{x}}"}, "/parameters/0/format"),
        ([{"name": "x"}, {"name": "x"}], {"env": {"X": "{{x}}"}}, "/parameters/1/name"),
        ([{"name": "x", "choices": [1]}], {"env": {"X": "{{x}}"}}, "/parameters/0/choices/0"),
        ([{"name": "X"}], {"env": {"X": "{{x}}"}}, "/parameters/0/name"),
        ([{"name": "x"}], {"count": "{{x}}"}, "/parameters/0"),
        ([], {"priority": "highest"}, "/workload/priority"),
    ],
)  # fmt: skip
def test_a_version_of_which_nothing_could_be_made_is_refused_at_its_place(
    given: list[dict[str, Any]], workload: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        version(given, **workload)
    assert pointer in {problem.pointer for problem in refused.value.problems}


def test_a_problem_in_the_spec_is_told_at_the_parameter_that_caused_it() -> None:
    found = version([{"name": "disk", "type": "integer", "unit": "GiB"}],
                    volumes=[{"name": "data", "size": "{{disk}}", "mount_path": "/data"}])  # fmt: skip
    for pointer in ("/spec/volumes/0/size", "/spec/volumes"):
        assert found.back(FieldProblem(pointer, "x", "y")).pointer == "/parameters/disk"
    assert found.back(FieldProblem("/spec/image", "x", "y")).pointer == "/spec/image"


def make(cast: Cast, template: Template, **given: Any) -> Workload:
    wish = Wish(values={"offer": cast.offer.slug, **given})
    return making.submit_from_template(
        actor=as_actor(cast.rosa), tenant=cast.vision, template=template, wish=wish, now=NOW
    )


def test_a_workload_remembers_template_and_version_and_a_new_version_leaves_it_alone(cast: Cast) -> None:
    template = make_template("lab", for_all=True)
    row = make(cast, template, hours=3)
    assert (row.template, row.template_version, row.spec["max_run_seconds"]) == ("lab", 1, 3 * 3600)
    before = (row.spec, row.generation)
    old = catalogue.definition_of(catalogue.version_of(template))
    newer = reading.definition_of(
        [reading.as_json(each) for each in old.parameters], {**old.workload, "image": "jupyter/pytorch:2"}
    )
    keeping.add_version(actor=as_actor(cast.petra), template=template, definition=newer, notes="", now=NOW)
    row.refresh_from_db()
    assert (row.spec, row.generation) == before
    template.refresh_from_db()
    assert make(cast, template).spec["image"] == "jupyter/pytorch:2"
    wish = Wish(values={"offer": cast.offer.slug}, version=1)
    pinned = making.submit_from_template(
        actor=as_actor(cast.rosa), tenant=cast.vision, template=template, wish=wish, now=NOW
    )
    assert (pinned.template_version, pinned.spec["image"]) == (1, "jupyter/pytorch:1")
    (change,) = comparing.differences(old, newer)
    assert (change.pointer, change.before, change.after) == (
        "/workload/image",
        "jupyter/pytorch:1",
        "jupyter/pytorch:2",
    )


def test_the_same_version_again_is_none_and_another_is_audited(cast: Cast) -> None:
    template = make_template("lab", for_all=True)
    same = catalogue.definition_of(catalogue.version_of(template))
    petra = as_actor(cast.petra)
    assert keeping.add_version(actor=petra, template=template, definition=same, notes="", now=NOW).number == 1
    assert not AuditEvent.objects.filter(action="template.version").exists()
    with pytest.raises(NotAllowed):
        keeping.add_version(actor=as_actor(cast.leon), template=template, definition=same, notes="", now=NOW)


def test_refusals_of_quota_image_and_range_stand_at_the_parameters(cast: Cast) -> None:
    template = make_template("lab", for_all=True)
    for values, pointer in (
        ({"offer": "no-such"}, "/parameters/offer"),
        ({"hours": 25}, "/parameters/hours"),
        ({"offer": None}, "/parameters/offer"),
    ):
        with pytest.raises(Invalid) as refused:
            make(cast, template, **values)
        assert [each.pointer for each in refused.value.problems] == [pointer]


def use(cast: Cast, template: Template, **entry: Any) -> None:
    keeping.update_template(
        actor=as_actor(cast.petra), template=template, entry=Entry("Lab", **entry), now=NOW
    )


def seen(user: User) -> bool:
    return catalogue.templates_for(as_actor(user)).filter(slug="lab").exists()


def test_who_may_use_it_is_by_department_tenant_and_trust(cast: Cast) -> None:
    template = make_template("lab", for_all=True)
    assert (seen(cast.rosa), seen(cast.otto)) == (True, True)
    use(cast, template, audience=Audience((cast.vision.department,), ()))
    assert (seen(cast.rosa), seen(cast.otto)) == (True, False)
    use(cast, template, audience=Audience((), (cast.genomics,)))
    assert (seen(cast.rosa), seen(cast.otto)) == (False, True)
    with pytest.raises(Invalid):
        make(cast, template)
    use(cast, template, least_trust=TrustLevel.TRUSTED)
    assert (seen(cast.rosa), seen(cast.petra)) == (False, True)
    type(cast.vision).objects.filter(pk=cast.vision.pk).update(trust_level=TrustLevel.TRUSTED)
    assert (seen(cast.rosa), seen(cast.otto)) == (True, False)
    with pytest.raises(NotFound):
        catalogue.template_for(as_actor(cast.otto), "lab")


def test_a_retired_template_makes_nothing_and_says_why_until_it_is_restored(cast: Cast) -> None:
    template, petra = make_template("lab", for_all=True), as_actor(cast.petra)
    row = make(cast, template)
    keeping.retire_template(actor=petra, template=template, reason="use lab-2", now=NOW)
    template.refresh_from_db()
    with pytest.raises(Conflict, match="use lab-2"):
        make(cast, template)
    verbs.stop_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=NOW)
    verbs.resume_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=NOW)
    keeping.restore_template(actor=petra, template=template, now=NOW)
    template.refresh_from_db()
    assert make(cast, template).template == "lab"


def test_a_leads_defaults_count_for_the_team_alone_until_they_fit_no_more(cast: Cast) -> None:
    template, leon = make_template("lab", for_all=True), as_actor(cast.leon)
    values = {"offer": cast.offer.slug, "hours": 4}
    keeping.set_defaults(actor=leon, template=template, tenant=cast.vision, values=values, now=NOW)
    assert catalogue.defaults_in(cast.vision) == {"lab": values}
    row = making.submit_from_template(actor=leon, tenant=cast.vision, template=template, wish=Wish(), now=NOW)
    assert row.spec["max_run_seconds"] == 4 * 3600
    with pytest.raises(NotAllowed):
        keeping.set_defaults(
            actor=as_actor(cast.rosa), template=template, tenant=cast.vision, values={}, now=NOW
        )
    with pytest.raises(Invalid) as refused:
        keeping.set_defaults(actor=leon, template=template, tenant=cast.vision, values={"hours": 99}, now=NOW)
    assert [each.pointer for each in refused.value.problems] == ["/spec/values/hours"]
    shorter = reading.definition_of(
        [
            {"name": "offer", "format": "offer"},
            {"name": "hours", "type": "integer", "unit": "hours", "maximum": 3, "default": 1},
        ],
        dict(catalogue.version_of(template).workload),
    )
    keeping.add_version(actor=as_actor(cast.petra), template=template, definition=shorter, notes="", now=NOW)
    template.refresh_from_db()
    row = making.submit_from_template(actor=leon, tenant=cast.vision, template=template, wish=Wish(), now=NOW)
    assert row.spec["max_run_seconds"] == 3600
    keeping.set_all_defaults(actor=leon, tenant=cast.vision, wanted={}, now=NOW)
    assert catalogue.defaults_in(cast.vision) == {}


def test_what_came_of_it_is_of_the_workloads_that_one_sees(cast: Cast) -> None:
    template = make_template("lab", for_all=True)
    for cost, waste in ((1, 0), (3, 1), (8, 6)):
        row = make(cast, template)
        Workload.objects.filter(pk=row.pk).update(
            cost_allocated=cost, cost_effective=cost - waste, cost_waste=waste, deleted_at=NOW
        )
    make(cast, template)
    came = experience_of(as_actor(cast.rosa), [template])["lab"]
    assert (came.workloads, came.median_cost, came.waste_percent) == (4, Decimal(3), 33)
    nothing = experience_of(as_actor(cast.otto), [template])["lab"]
    assert (nothing.workloads, nothing.median_cost, nothing.usual_waste) == (0, None, None)


def test_what_is_exported_is_imported_as_it_was_and_twice_is_once(cast: Cast) -> None:
    text = catalogue.source_of(make_template("lab", for_all=True))
    Template.objects.all().update(slug="old")
    petra = as_actor(cast.petra)
    for _ in range(2):
        made = keeping.import_template(actor=petra, source=source.parse(text), now=NOW)
    assert (made.version, catalogue.source_of(made)) == (1, text)
    changed = text.replace("maximum: 24", "maximum: 12")
    assert keeping.import_template(actor=petra, source=source.parse(changed), now=NOW).version == 2
    assert TemplateVersion.objects.filter(template=made).count() == 2


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("a: &x [1]\nb: *x", "/source"),
        ("[", "/source"),
        ("- 1", "/source"),
        ("template: Lab", "/source/template"),
        ("template: lab\nname: Lab\nowner: x", "/source/owner"),
        ("template: lab\nname: Lab\nworkload: {kind: job, env: {A: 2026-01-01}}", "/source/workload"),
        ("template: lab\nname: Lab\nparameters: {}", "/source/parameters"),
        ("x" * (source.LONGEST + 1), "/source"),
        (
            "template: lab\nname: Lab\nworkload: {kind: notebook, offer: h100, env: {1: x}}",
            "/source/workload/env/1",
        ),
    ],
)
def test_a_file_that_is_no_template_is_refused_at_its_place(text: str, pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        source.parse(text)
    assert pointer in {problem.pointer for problem in refused.value.problems}


@pytest.mark.parametrize("line", ["1: a", "on: a", "~: a", "env: {A: .nan}"])
def test_a_key_that_is_no_text_is_refused_anywhere(line: str) -> None:
    whole = "template: t\nname: T\nworkload: {kind: job, offer: o, image: 'a/b:1'}\n"
    for text in (
        f"{whole}{line}\n",
        whole.replace("{kind", f"{{{line}, kind"),
        f"{whole}parameters: [{{{line}}}]",
    ):
        with pytest.raises(Invalid):
            source.parse(text)


@pytest.mark.parametrize("depth", [30, 500, 900])
def test_what_is_nested_too_deeply_is_refused(depth: int) -> None:
    deep: Any = "x"
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(Invalid):
        version([], args=deep)


def test_a_number_beyond_all_bounds_is_refused() -> None:
    assert parameters.wrong(HOURS, 10**400) == "From 1 to 24 hours."
    with pytest.raises(Invalid):
        version([{**NUMBER, "default": 10**400}], count="{{x}}")


def test_an_import_reads_for_whom_it_is_under_the_lock(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    found = source.parse("template: lab\nname: Lab\nworkload: {kind: job, offer: o, image: 'a/b:1'}\n")
    keeping.import_template(actor=petra, source=found, now=NOW)
    with CaptureQueriesContext(connection) as heard:
        keeping.import_template(actor=petra, source=found, now=NOW)
    texts = [each["sql"] for each in heard.captured_queries]
    locks = [n for n, text in enumerate(texts) if "FOR UPDATE" in text and 'workloads_template"' in text]
    reads = [n for n, text in enumerate(texts) if "workloads_template_departments" in text]
    assert connection.vendor != "postgresql" or min(locks) < min(reads)


def test_those_of_the_product_make_what_they_say_and_are_added_once(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    made = shipping.add_shipped(actor=petra, now=NOW)
    assert " ".join(each.slug for each in made) == (
        "pytorch-notebook jupyterlab fine-tune batch-array data-preparation llm-endpoint"
    )
    assert shipping.add_shipped(actor=petra, now=NOW) == []
    cores = make_cores(cast.vision.cluster)
    make_quota(cast.vision, cores, nominal=16)
    for template in made:
        known = catalogue.definition_of(catalogue.version_of(template)).parameters
        assert len(known) == 3, "three fields long"
        given = {each.name: each.sample for each in known if each.format is not Format.OFFER}
        if template.slug == "data-preparation":
            given["offer"] = cores.slug
        row = make(cast, template, **given)
        assert row.offer.is_cores is (template.slug == "data-preparation")
        assert (row.kind, row.template) == (template.kind, template.slug)
        spec = parsing.stored(row.spec)
        assert spec.job is None or not spec.job.is_array or template.slug == "batch-array"
        assert bool(spec.volumes) is (template.slug not in ("batch-array", "llm-endpoint"))


def test_an_array_from_a_template_has_its_items(cast: Cast) -> None:
    array = shipping.add_shipped(actor=as_actor(cast.petra), now=NOW)[3]
    spec = parsing.stored(make(cast, array, items=200, command="echo $JOB_COMPLETION_INDEX").spec)
    assert spec.kind is Kind.JOB
    assert spec.job is not None
    assert (spec.job.completions, spec.job.parallelism, spec.job.is_array) == (200, 2, True)
    assert spec.command == ("sh", "-c", "echo $JOB_COMPLETION_INDEX")
