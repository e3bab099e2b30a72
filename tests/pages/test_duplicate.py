"""A new workload like one that is there: the form has everything of it, and says what does not come along."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.models import Offer
from apps.workloads.models import Workload, WorkloadSecret
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.services import keeping
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind, Phase, WorkloadSpec
from portal.pages.team.workloads import as_typed
from portal.pages.team.workloads.workload_forms import WorkloadForm, typed
from tests import factories
from tests.conftest import SignedIn, as_actor
from tests.pages.conftest import Scene

COMMON = {
    "offer": "h100-1g-10gb", "image": "registry.example/team/train:1", "count": 2,
    "cpu": "3500m", "memory": "24Gi",
    "args": ["--name", "two words", "it's", ""], "env": {"A": "1", "B": 'x = "y"\n and more ', "EMPTY": ""},
    "priority": "preemptible", "max_wait_seconds": 7777,
    "idle_policy": {"action": "warn", "for_seconds": 5400},
}  # fmt: skip
DATA = {"name": "data", "size": "100Gi", "mount_path": "/data"}
SPECS = [
    {**COMMON, "kind": "notebook", "max_run_seconds": 5400, "command": ["start.sh", "jupyter lab"],
     "volumes": [{"name": "home", "size": "20Gi", "mount_path": "/home/jovyan"}, DATA],
     "max_wait_seconds": None,
     "notebook": {"hours": {"days": ["Mon", "Tue", "Thu", "Sun"], "from": "07:05", "until": "24:00",
                            "time_zone": "America/New_York"}}},
    {**COMMON, "kind": "notebook", "max_run_seconds": 14400, "volumes": [DATA], "args": []},
    {**COMMON, "kind": "notebook", "max_run_seconds": 7201, "volumes": [],
     "max_wait_seconds": None, "notebook": {"hours": {"days": ["Fri"]}}},
    {**COMMON, "kind": "job", "command": ["sh", "-c", "python a.py\n--x 1"], "args": [], "volumes": [DATA],
     "job": {"items": "3,7-9", "parallelism": 2, "backoff_limit": 1, "max_failed_indexes": 1}},
    {**COMMON, "kind": "job", "command": ["python", "-c", "print('a b')\n"], "max_run_seconds": 61,
     "job": {"completions": 5, "completion_mode": "NonIndexed"}},
    {**COMMON, "kind": "job", "job": {"completions": 1, "completion_mode": "Indexed"}},
    {**COMMON, "kind": "training", "command": ["sh", "-c", "torchrun train.py"], "env": {}, "args": [],
     "volumes": [{"name": "checkpoints", "size": "1Ti", "mount_path": "/checkpoints"}, DATA],
     "training": {"nodes": 4, "processes_per_node": 1, "restarts": 3}},
    {**COMMON, "kind": "service", "args": ["--model", "small"],
     "service": {"port": 9000, "replicas": 3, "health_path": "/health", "health_port": 9001,
                 "start_seconds": 900, "open_to": "owner"}},
]  # fmt: skip


def test_every_kind_is_tried() -> None:
    assert {each["kind"] for each in SPECS} == set(Kind)


@pytest.mark.parametrize("body", SPECS, ids=lambda body: str(body["kind"]))
def test_the_form_makes_the_same_request_of_what_is_typed_into_it(body: dict[str, Any]) -> None:
    spec, labels = parsing.parse(body), {"team/project": "search", "empty": ""}
    form = WorkloadForm(typed("again", spec, labels), kind=spec.kind, offer=spec.offer)
    assert form.is_valid(), form.errors
    assert form.spec == spec
    assert form.given_labels == labels


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30)


@given(st.lists(TEXTS, max_size=6))
def test_words_are_split_as_they_were_joined(found: list[str]) -> None:
    assert as_typed.words(as_typed.words_shown(found)) == found


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), TEXTS, max_size=6))
def test_variables_are_read_as_they_were_written_whatever_is_in_them(found: dict[str, str]) -> None:
    assert as_typed.pairs(as_typed.pairs_shown(found)) == found
    assert as_typed.pairs(as_typed.pairs_shown(found).replace("\n", "\r\n").strip()) == found


@pytest.mark.parametrize("span", [0, 1, 59, 60, 90, 3600, 5400, 86400, 7201])
def test_a_time_is_read_as_it_was_written(span: int) -> None:
    assert as_typed.seconds(as_typed.seconds_shown(span)) == (span or None)


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("env", "A=1\nB", "Line 2: NAME=value."),
        ("env", "A=1\n\nA=2", "Line 3: A is there twice."),
        ("env", "1A=1", "not starting with a digit"),
        ("labels", "nothing", "Line 1: NAME=value."),
        ("disks", "data 10Gi", "Line 1: name, size and path"),
        ("disks", "data lots /data", "lots"),
        ("args", "it's", "A quotation mark is not closed."),
        ("max_wait", "soon", "soon"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field(field: str, text: str, words: str) -> None:
    form = WorkloadForm({"count": "1", "disk": "10Gi", field: text}, kind=Kind.NOTEBOOK, offer="h100")
    assert list(form.errors) == [field]
    assert words in str(form.errors[field])
    assert form.is_advanced or field == "max_wait"


def test_two_commands_are_refused_with_what_to_do() -> None:
    both = {"image": "a/b:1", "command": "python a.py", "program": "python b.py"}
    form = WorkloadForm(both, kind=Kind.JOB, offer="h100")
    assert form.errors == {"program": ["Fill in Command or this, not both."]}


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


def give(row: Workload, spec: WorkloadSpec | None = None, **columns: Any) -> None:
    """Another request on the row, as if it had been asked for so."""
    kind = {"kind": spec.kind, "spec": parsing.as_json(spec)} if spec else {}
    Workload.objects.filter(pk=row.pk).update(**kind, **columns)
    row.refresh_from_db()


def fields_of(client: Client, row: Workload) -> str:
    """The form, reached by the button on its page."""
    there = f"/t/vision/workloads/{row.pk}/"
    (button,) = re.findall(r'id="duplicate" href="([^"]+)"', client.get(there).content.decode())
    answer = client.get(button, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def sent_by(html: str) -> dict[str, str]:
    """What the form of a page would send if nothing was changed."""
    found: dict[str, str] = {}
    plain = re.sub(r"<form[^>]*sign-?out.*?</form>", "", html, flags=re.DOTALL)
    for tag in re.findall(r"<input [^>]*>", plain):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and (("checkbox" not in tag and "radio" not in tag) or " checked" in tag):
            found[name[1]] = value[1] if value else "on" if "checkbox" in tag else ""
    for name, text in re.findall(r'<textarea name="([^"]+)"[^>]*>(.*?)</textarea>', plain, re.DOTALL):
        found[name] = text.removeprefix("\n")
    for name, inside in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', plain, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', inside) or re.search(r'value="([^"]*)"', inside)
        found[name] = chosen[1] if chosen else ""
    return {name: _plain(value) for name, value in found.items()}


def _plain(text: str) -> str:
    for entity, sign in (("&quot;", '"'), ("&#x27;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(entity, sign)
    return text


def made_like(client: Client, row: Workload, **changed: str) -> Workload:
    """Through all steps with nothing changed but these."""
    step = f"/t/vision/new/{row.kind}/{row.spec['offer']}/review/"
    review = client.get(step, sent_by(fields_of(client, row)))
    assert review.status_code == 200, re.findall(r'class="error"[^>]*>([^<]+)', review.content.decode())
    answer = client.post("/t/vision/workloads/", {**sent_by(review.content.decode()), **changed})
    assert answer.status_code == 303
    return Workload.objects.get(pk=answer["Location"].rstrip("/").rpartition("/")[2])


@pytest.mark.django_db
@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STOPPED, Phase.FAILED, Phase.SUCCEEDED])
def test_whatever_became_of_it_another_like_it_is_made(scene: Scene, rosa: Client, phase: Phase) -> None:
    body = {**SPECS[0], "count": 1, "cpu": "3", "memory": "12Gi", "priority": "batch"}
    give(scene.running, parsing.parse(body), phase=phase, labels={"project": "search"})
    made = made_like(rosa, scene.running)
    assert made.spec == scene.running.spec
    assert (made.labels, made.name) == ({"project": "search"}, f"{scene.running.name} (copy)")
    assert made.object_name != scene.running.object_name


@pytest.mark.django_db
def test_a_job_and_its_array_are_asked_for_again(scene: Scene, rosa: Client) -> None:
    body: dict[str, Any] = {**SPECS[3], "count": 1, "cpu": "2", "memory": "8Gi", "priority": "batch"}
    body["job"] = {**body["job"], "parallelism": 1}
    give(scene.running, parsing.parse(body), phase=Phase.FAILED)
    assert made_like(rosa, scene.running).spec == scene.running.spec


@pytest.mark.django_db
def test_what_came_with_the_offer_is_left_to_the_offer(scene: Scene, rosa: Client) -> None:
    offer = scene.cast.offer
    spec = parsing.parse(factories.notebook_body(offer.slug))
    full = spec.completed_with(cpu_millis=0, memory_bytes=0, run_seconds=None)
    give(scene.running, full)
    found = sent_by(fields_of(rosa, scene.running))
    assert found["memory"] == "16Gi"
    scene.running.spec |= {"cpu": "2", "memory": "8Gi"}
    Offer.objects.filter(pk=offer.pk).update(cpu_millis=2000, memory_bytes=8 * 2**30)
    give(scene.running, parsing.parse(scene.running.spec))
    found = sent_by(fields_of(rosa, scene.running))
    assert (found["cpu"], found["memory"]) == ("", "")


@pytest.mark.django_db
def test_its_disks_are_new_and_the_page_says_so(scene: Scene, rosa: Client) -> None:
    assert "are new and empty: its files stay with" in fields_of(rosa, scene.running)
    give(scene.running, parsing.parse({**scene.running.spec, "volumes": []}))
    shown = fields_of(rosa, scene.running)
    assert "are new and empty: its files stay" not in shown
    assert sent_by(shown)["disk"] == "", "no disk stays no disk"
    assert made_like(rosa, scene.running).spec["volumes"] == []


@pytest.mark.django_db
def test_ones_own_secrets_come_along_unless_they_are_left(scene: Scene, rosa: Client) -> None:
    for wish in (SecretWish("HF_TOKEN", Into.ENV, "abc"), SecretWish("netrc", Into.FILE, "def")):
        keeping.set_secret(actor=as_actor(scene.cast.rosa), workload=scene.running, wish=wish, now=scene.now)
    assert "that come along: HF_TOKEN (" in fields_of(rosa, scene.running)
    made = made_like(rosa, scene.running)
    assert [name for name, _ in made.secret_names] == ["HF_TOKEN", "netrc"]
    left = made_like(rosa, scene.running, take="")
    assert left.secret_names == []
    replaced = made_like(rosa, scene.running, secrets="HF_TOKEN=new")
    assert WorkloadSecret.objects.filter(workload=replaced).count() == 2


@pytest.mark.django_db
def test_another_persons_secrets_are_named_and_have_to_be_given_again(
    scene: Scene, signed_in: SignedIn
) -> None:
    wish = SecretWish("HF_TOKEN", Into.ENV, "abc")
    keeping.set_secret(actor=as_actor(scene.cast.rosa), workload=scene.running, wish=wish, now=scene.now)
    leon = signed_in(scene.cast.leon)
    shown = fields_of(leon, scene.running)
    assert "to give again in the review: HF_TOKEN" in shown
    step = f"/t/vision/new/notebook/{scene.running.spec['offer']}/review/"
    review = leon.get(step, sent_by(shown)).content.decode()
    assert "rag-dev has HF_TOKEN" in review
    assert 'name="take"' not in review
    assert made_like(leon, scene.running, take="on").secret_names == []


@pytest.mark.django_db
def test_sharing_is_its_new_owners_choice(scene: Scene, rosa: Client) -> None:
    spec = {**scene.running.spec, "notebook": {"ide": "jupyterlab", "open_to": "team"}}
    give(scene.running, parsing.parse(spec))
    assert "at first only you open it" in fields_of(rosa, scene.running)
    assert made_like(rosa, scene.running).open_to == "owner"


@pytest.mark.django_db
def test_an_offer_that_is_sold_no_more_leads_to_the_choice_of_another(scene: Scene, rosa: Client) -> None:
    other = factories.make_offer(scene.cast.offer.flavor, "h100-3g-40gb", hourly="1.20")
    factories.make_quota(scene.cast.vision, other)
    Offer.objects.filter(pk=scene.cast.offer.pk).update(enabled=False)
    shown = fields_of(rosa, scene.running)
    assert "New notebook like rag-dev" in shown
    chosen = {"offer": other.slug, "like": str(scene.running.pk)}
    form = rosa.get("/t/vision/new/notebook/", chosen, follow=True).content.decode()
    assert sent_by(form)["name"] == "rag-dev (copy)"


@pytest.mark.django_db
def test_back_from_the_review_keeps_what_was_changed_and_what_it_is_like(scene: Scene, rosa: Client) -> None:
    step = f"/t/vision/new/notebook/{scene.running.spec['offer']}/"
    changed = {**sent_by(fields_of(rosa, scene.running)), "name": "other", "disk": ""}
    review = rosa.get(f"{step}review/", changed).content.decode()
    (back,) = re.findall(rf'href="({step}\?[^"]+)">Back', review)
    again = sent_by(rosa.get(_plain(back)).content.decode())
    assert (again["name"], again["disk"], again["like"]) == ("other", "", str(scene.running.pk))


@pytest.mark.django_db
def test_what_it_was_to_be_like_may_go_meanwhile(scene: Scene, rosa: Client) -> None:
    typed_in = sent_by(fields_of(rosa, scene.running))
    Workload.objects.filter(pk=scene.running.pk).update(deleted_at=scene.now + timedelta(seconds=1))
    body = {**typed_in, "kind": "notebook", "offer": scene.running.spec["offer"], "key": str(uuid4())}
    answer = rosa.post("/t/vision/workloads/", body)
    shown = answer.content.decode()
    assert answer.status_code == 422
    assert "Its secrets do not come along any more" in shown
    assert rosa.post("/t/vision/workloads/", sent_by(shown)).status_code == 303


@pytest.mark.django_db
def test_only_those_who_submit_and_see_it_are_led_to_the_form(scene: Scene, signed_in: SignedIn) -> None:
    ann, otto = signed_in(scene.cast.ann), signed_in(scene.cast.otto)
    there = scene.url(scene.running)
    assert 'id="duplicate"' not in ann.get(there).content.decode()
    assert ann.get(f"{there}duplicate/").status_code == 403
    assert otto.get(f"{there}duplicate/").status_code == 404
    rosa, step = signed_in(scene.cast.rosa), f"/t/vision/new/notebook/{scene.running.spec['offer']}/"
    for like in (str(scene.other.pk), "nonsense", str(uuid4())):
        assert rosa.get(step, {"like": like}).status_code == 404, "another team's is as unknown as any"
    assert rosa.get(step.replace("notebook", "job"), {"like": str(scene.running.pk)}).status_code == 404
