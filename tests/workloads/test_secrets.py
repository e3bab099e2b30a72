"""A workload's secrets: who sets them, what becomes of them in the cluster, and that nobody reads them."""

import base64
import logging
from typing import Any

import pytest
from django.apps import apps
from django.test import override_settings

from apps.audit.models import AuditEvent
from apps.cluster.models import MirrorObject
from apps.cluster.objects.conditions import find
from apps.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload, WorkloadSecret
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.rules import wishes as rules
from apps.workloads.secrets.services import keeping
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadRequest
from tests.conftest import Cast, SignedIn, as_actor
from tests.factories import NOW, make_template, notebook_body
from tests.tenants.rest import Rest
from tests.workloads import bodies
from tests.workloads.asking import asked
from tests.workloads.in_process import House

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CANARY = "canary-51be-value"
SEALED_KEY = "another-key-of-some-length-for-this-test"


def wish(name: str = "HF_TOKEN", value: str = CANARY, into: Into = Into.ENV) -> SecretWish:
    return SecretWish(name, into, value)


def put(row: Workload, user: Any = None, **given: Any) -> WorkloadSecret:
    actor = as_actor(user or row.owner)
    return keeping.set_secret(actor=actor, workload=row, wish=wish(**given), now=NOW)


def remove(row: Workload, name: str = "HF_TOKEN") -> None:
    keeping.remove_secret(actor=as_actor(row.owner), workload=row, name=name, now=NOW)


def submit(cast: Cast, *secrets: SecretWish, **given: Any) -> Workload:
    request = WorkloadRequest(**{**asked().__dict__, "secrets": secrets, **given})
    return verbs.submit_workload(actor=as_actor(cast.rosa), tenant=cast.vision, request=request, now=NOW)


@pytest.fixture
def house(cast: Cast) -> House:
    return House(submit(cast, wish(), wish("netrc", "machine x\npassword y", Into.FILE)))


def data_of(house: House) -> dict[str, str]:
    """What its Secret in the cluster holds; nothing where there is none."""
    name = f"{house.row.object_name}-allotment-secrets"
    found = [each for ref, each in house.cluster.objects.items() if (ref.kind, ref.name) == ("Secret", name)]
    data = found[0]["data"] if found else {}
    return {key: base64.b64decode(text).decode() for key, text in data.items() if key != ".salt"}


def container_of(house: House) -> Any:
    return house.queued["spec"]["containers"][0]


def named(house: House) -> list[str]:
    """The variables that come out of the Secret."""
    return [
        each["name"]
        for each in container_of(house)["env"]
        if each.get("valueFrom", {}).get("secretKeyRef", {}).get("name", "").endswith("-allotment-secrets")
    ]


def test_values_go_into_a_secret_that_its_pods_name(house: House) -> None:
    house.turn()
    assert data_of(house) == {"HF_TOKEN": CANARY, "netrc": "machine x\npassword y"}
    assert named(house) == ["HF_TOKEN"]
    mounts = {each["name"]: each["mountPath"] for each in container_of(house)["volumeMounts"]}
    assert mounts["secrets-of-the-workload"] == "/run/secrets/allotment"


def test_a_second_look_applies_nothing(house: House) -> None:
    house.turn()
    before = len(house.cluster.calls)
    house.turn()
    assert len(house.cluster.calls) == before


def test_its_owner_leads_and_platform_engineers_set_and_remove_and_nobody_else(cast: Cast) -> None:
    row = submit(cast)
    for user in (cast.otto, cast.ann):
        with pytest.raises(NotAllowed):
            put(row, user)
    for user in (cast.rosa, cast.leon, cast.petra):
        put(row, user)
    (kept,) = WorkloadSecret.objects.all()
    assert kept.set_by == "platform"
    remove(row)
    with pytest.raises(NotFound):
        remove(row)
    told = list(AuditEvent.objects.order_by("sequence").values_list("action", flat=True))
    assert told[1:] == ["workload.set-secret"] * 3 + ["workload.remove-secret"]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"name": "1A"}, "/name"),
        ({"name": "A-B"}, "/name"),
        ({"name": "LD_PRELOAD"}, "/name"),
        ({"name": "NVIDIA_VISIBLE_DEVICES"}, "/name"),
        ({"name": "JUPYTER_TOKEN"}, "/name"),
        ({"name": "JOB_COMPLETION_INDEX"}, "/name"),
        ({"name": "PET_RDZV_ENDPOINT"}, "/name"),
        ({"name": "../up", "into": Into.FILE}, "/name"),
        ({"name": ".salt", "into": Into.FILE}, "/name"),
        ({"value": ""}, "/value"),
        ({"value": "a\0b"}, "/value"),
        ({"value": "ä" * (rules.LONGEST_VALUE // 2 + 1)}, "/value"),
    ],
)
def test_a_wrong_secret_is_refused_at_its_field(cast: Cast, given: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        put(submit(cast), **given)
    assert [problem.pointer for problem in refusal.value.problems] == [pointer]


def test_there_are_no_more_than_twenty_and_none_twice(cast: Cast) -> None:
    row = submit(cast, *(wish(f"A{number}") for number in range(rules.MOST_SECRETS)))
    with pytest.raises(Invalid):
        put(row, name="ONE_MORE")
    put(row, name="A0", value="another")
    with pytest.raises(Invalid) as twice:
        submit(cast, wish(), wish(), slug="twice")
    assert [problem.pointer for problem in twice.value.problems] == ["/secrets/1/name"]


def test_what_is_set_while_it_runs_counts_from_the_next_start_and_ends_nothing(house: House) -> None:
    assert house.start().phase == Phase.RUNNING
    uid = house.controller["uid"]
    put(house.row, name="WANDB_KEY", value="w")
    put(house.row, value="replaced")
    house.turn()
    assert data_of(house)["HF_TOKEN"] == "replaced"
    assert (named(house), house.controller["uid"]) == (["HF_TOKEN"], uid)
    verbs.stop_workload(actor=as_actor(house.row.owner), workload=house.row, reason="", now=NOW)
    house.turn()
    assert data_of(house) == {}, "nothing of it stays in the cluster while it is stopped"
    house.forget("Pod", "Workload", "ResourceClaim")
    house.turn()
    verbs.resume_workload(actor=as_actor(house.row.owner), workload=house.row, reason="", now=NOW)
    house.turn()
    assert named(house) == ["HF_TOKEN", "WANDB_KEY"]


def test_what_waits_takes_a_secret_at_once(house: House) -> None:
    house.turn()
    put(house.row, name="WANDB_KEY", value="w")
    house.turn()
    house.forget("Pod")
    house.turn()
    assert named(house) == ["HF_TOKEN", "WANDB_KEY"]


def test_what_was_removed_is_empty_while_its_pods_name_it(house: House) -> None:
    house.start()
    remove(house.row)
    remove(house.row, "netrc")
    house.turn()
    assert data_of(house) == {"HF_TOKEN": "", "netrc": ""}, "without the key no container could start again"
    assert named(house) == ["HF_TOKEN"]


def test_a_deletion_forgets_them_also_where_disks_are_kept(house: House) -> None:
    house.turn()
    actor = as_actor(house.row.owner)
    verbs.delete_workload(actor=actor, workload=house.row, keep_volumes=True, now=NOW)
    assert not WorkloadSecret.objects.exists()
    house.turn()
    assert data_of(house) == {}


def test_what_has_ended_takes_none_and_lets_go_of_what_it_has(house: House) -> None:
    Workload.objects.filter(pk=house.row.pk).update(phase=Phase.FAILED)
    with pytest.raises(Conflict):
        put(house.row)
    remove(house.row)


def test_nothing_of_it_stays_in_the_cluster_once_a_job_has_ended(cast: Cast) -> None:
    house = House(submit(cast, wish(), spec=asked(kind="job", command=["true"]).spec))
    house.turn()
    assert data_of(house) == {"HF_TOKEN": CANARY}
    job = next(body for ref, body in house.cluster.objects.items() if ref.kind == "Job")
    done = bodies.controller("Job", bodies.condition("Complete"))["status"]
    house.tell({**job, "status": done}, labelled=True)
    row = house.turn()
    assert (row.phase, row.due_at is not None) == (Phase.SUCCEEDED, True), "somebody looks at it once more"
    row = house.turn()
    assert data_of(house) == {}
    assert "Job" in house.kinds()
    assert row.phase == Phase.SUCCEEDED


def test_a_copy_has_those_of_ones_own_and_nobody_elses(cast: Cast) -> None:
    row = submit(cast, wish(), wish("WANDB_KEY", "w"))
    mine = submit(cast, wish("WANDB_KEY", "mine"), slug="mine", like=str(row.pk))
    assert mine.secret_names == mine.run_secrets == [["HF_TOKEN", "env"], ["WANDB_KEY", "env"]]
    house = House(mine)
    house.turn()
    assert data_of(house) == {"HF_TOKEN": CANARY, "WANDB_KEY": "mine"}
    request = WorkloadRequest(**{**asked("theirs").__dict__, "like": str(row.pk)})
    theirs = verbs.submit_workload(actor=as_actor(cast.leon), tenant=cast.vision, request=request, now=NOW)
    assert theirs.secret_names == []


def test_what_was_sealed_with_another_key_is_said_and_nothing_starts_without_it(house: House) -> None:
    with override_settings(SECRET_KEY=SEALED_KEY):
        put(house.row)
    row = house.turn()
    assert data_of(house) == {"netrc": "machine x\npassword y"}
    assert named(house) == ["HF_TOKEN"], "the kubelet waits for the key"
    told = find(row.conditions, "SecretsRead")
    assert told is not None
    assert (told["status"], "HF_TOKEN" in told["message"]) == ("False", True)
    put(house.row)
    again = find(house.turn().conditions, "SecretsRead")
    assert again is not None
    assert again["status"] == "True"


def test_the_mirror_keeps_a_digest_that_helps_nobody_to_guess(house: House) -> None:
    house.turn()
    kept = MirrorObject.objects.get(kind="Secret", name__endswith="-allotment-secrets")
    salts = [each["data"][".salt"] for ref, each in house.cluster.objects.items() if ref.name == kept.name]
    assert len(base64.b64decode(salts[0])) == 64
    assert "data" not in kept.body
    assert salts[0] not in columns()


def columns() -> str:
    """Every column of every row that there is."""
    return str([list(model._default_manager.values()) for model in apps.get_models()])


def test_a_value_is_in_no_page_answer_log_record_or_column(
    cast: Cast, signed_in: SignedIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    owner, rest, told = signed_in(cast.rosa), Rest(cast.rosa), []
    body = {"tenant": "vision", "slug": "lab", "spec": notebook_body()}
    secrets = [{"name": "HF_TOKEN", "value": CANARY}, {"name": "netrc", "into": "file", "value": CANARY}]
    made = rest.send("POST", "/workloads", {**body, "secrets": secrets}, key="once")
    told += [made, rest.send("POST", "/workloads", {**body, "secrets": secrets}, key="once")]
    told.append(rest.send("POST", "/workloads?dry_run=true", {**body, "slug": "dry", "secrets": secrets}))
    told.append(rest.send("POST", "/workloads", {**body, "secrets": [{"name": "1", "value": CANARY}]}))
    row = Workload.objects.get(slug="lab")
    here, page = f"/workloads/{row.pk}", f"/t/vision/workloads/{row.pk}/"
    told.append(rest.send("PUT", f"{here}/secrets/TOKEN", {"value": CANARY}))
    told.append(rest.send("PUT", f"{here}/secrets/1", {"value": CANARY}))
    told.append(rest.send("POST", f"{here}/duplicate", {"secrets": [{"name": "B", "value": CANARY}]}))
    told.append(owner.post(f"{page}secrets/", {"name": "C", "into": "env", "value": CANARY}))
    told.append(owner.post(f"{page}secrets/", {"name": "C-D", "into": "env", "value": CANARY}))
    assert [each.status_code for each in told] == [201, 201, 200, 422, 200, 422, 201, 303, 422]
    house = House(row)
    house.turn()
    assert data_of(house)["C"] == CANARY
    paths = (here, f"{here}/secrets", f"{here}/secrets/TOKEN", f"{here}/manifests", f"{here}/events")
    for user in (cast.rosa, cast.leon, cast.petra, cast.ann):
        told += [Rest(user).get(path) for path in paths]
        told += [signed_in(user).get(f"{page}{each}") for each in ("", "yaml/", "secrets/")]
    shown = "".join(each.content.decode() for each in told)
    everything = {"pages and REST": shown, "log": caplog.text, "columns": columns(), "repr": repr(wish())}
    clear = [CANARY, base64.b64encode(CANARY.encode()).decode()]
    assert [where for where, text in everything.items() for each in clear if each in text] == []
    assert CANARY not in repr(reading.place_of(row))
    assert "TOKEN" in shown, "the name itself is shown"


def test_what_is_made_from_a_template_brings_its_own_along(cast: Cast) -> None:
    make_template("lab", for_all=True)
    body = {"tenant": "vision", "slug": "lab", "parameters": {"offer": cast.offer.slug}}
    told = [
        Rest(cast.rosa).send(
            "POST",
            f"/templates/lab/workloads{query}",
            {**body, "secrets": [{"name": "HF_TOKEN", "value": CANARY}]},
        )
        for query in ("?dry_run=true", "")
    ]
    assert [(each.status_code, CANARY in each.content.decode()) for each in told] == [
        (200, False), (201, False)
    ]  # fmt: skip
    house = House(Workload.objects.get(slug="lab"))
    house.turn()
    assert data_of(house) == {"HF_TOKEN": CANARY}


def test_the_last_step_of_a_new_notebook_takes_them_and_no_address_has_them(
    cast: Cast, signed_in: SignedIn
) -> None:
    form = {"kind": "notebook", "offer": "h100-1g-10gb", "name": "lab", "image": "jupyter/pytorch:1"}
    owner = signed_in(cast.rosa)
    wrong = owner.post("/t/vision/workloads/", {**form, "secrets": f"HF_TOKEN={CANARY}\n1={CANARY}"})
    assert wrong.status_code == 422
    text = wrong.content.decode()
    assert ("Line 2" in text, CANARY in text) == (True, False)
    made = owner.post("/t/vision/workloads/", {**form, "secrets": f"HF_TOKEN={CANARY}\r\nB=a=b\n"})
    assert made.status_code == 303
    row = Workload.objects.get(name="lab")
    assert row.secret_names == [["B", "env"], ["HF_TOKEN", "env"]]
    house = House(row)
    house.turn()
    assert data_of(house)["B"] == "a=b"


def test_the_page_says_what_counts_only_from_the_next_start(house: House, signed_in: SignedIn) -> None:
    house.start()
    put(house.row, name="WANDB_KEY", value="w")
    page = signed_in(house.row.owner).get(f"/t/vision/workloads/{house.row.pk}/secrets/").content.decode()
    assert page.count("from its next start on") == 1
    assert "/run/secrets/allotment/netrc" in page


def test_the_page_tells_what_is_wrong_at_its_field(cast: Cast, signed_in: SignedIn) -> None:
    row = verbs.submit_workload(actor=as_actor(cast.rosa), tenant=cast.vision, request=asked(), now=NOW)
    typed = {"name": "LD_PRELOAD", "into": "env", "value": CANARY}
    answer = signed_in(cast.rosa).post(f"/t/vision/workloads/{row.pk}/secrets/", typed)
    page = answer.content.decode()
    assert (answer.status_code, CANARY in page) == (422, False)
    assert 'href="#id_name">Name: Only the platform sets this variable.' in page
