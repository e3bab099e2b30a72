"""The corpus through the forms and addresses of pages: never a server error, never markup as it was typed."""

from urllib.parse import urlencode

import pytest

from tests.accounts.ssh_lines import line
from tests.hostile import corpus
from tests.hostile.bounds import wrong
from tests.matrix import asking
from tests.matrix.scene import Scene, undone
from tests.sample import every, sampled

pytestmark = pytest.mark.django_db

ALL = [*corpus.TEXTS, *corpus.SLUGS, corpus.LONG]
WORDS = [*corpus.TEXTS[:6], "a\x00b", corpus.LONG, "-1", str(2**63), str(10**30), "1e308", "NaN"]
QUANTITIES = [str(amount) for amount in corpus.QUANTITIES]
NOTEBOOK = {"kind": "notebook", "offer": "h100-slice"}
ARRAY = ("completions", "parallelism", "retries", "items", "max_failed_indexes")
JOB = {"kind": "job", "offer": "h100-slice", "image": "a/b:1"}
FILES = [
    *WORDS,
    "template: x\nname: {a: [b]}",
    "template: x\nname: x\nparameters: [{name: a, type: number, minimum: .nan}]\nworkload: {}",
    "template: x\nname: x\nparameters: [[], 1, null]\nworkload: {kind: [job], offer: {}}",
    "template: x\nname: x\nworkload: {? [a] : b, kind: job}",
    "template: x\nname: <script>alert(1)</script>\nworkload: {kind: notebook, offer: h100}",
    "[" * 200,
    "a: &a [*a]",
    "!!python/object/apply:os.system [id]",
]
FORMS: dict[str, tuple[str, dict[str, str], dict[str, list[str]]]] = {
    "a new notebook": (
        "/t/optics/workloads/",
        NOTEBOOK,
        {
            **dict.fromkeys(("kind", "offer", "count", "run_hours", "max_wait", "key", "seen_hourly"), WORDS),
            "name": ALL,
            **dict.fromkeys(("cpu", "memory", "disk"), QUANTITIES),
            "image": [*corpus.IMAGES, *corpus.TEXTS],
        },
    ),
    "a new job": (
        "/t/optics/workloads/",
        JOB,
        dict.fromkeys(("name", "command", "run_hours", "image", *ARRAY), WORDS),
    ),
    "a review": (
        "/t/optics/new/job/h100-slice/review/",
        JOB,
        dict.fromkeys(("name", "command", "image", *ARRAY), WORDS),
    ),
    "a template": (
        "/t/optics/templates/optics-template/",
        {"p-offer": "h100-slice", "p-hours": "2"},
        {"name": ALL, **dict.fromkeys(("p-offer", "p-hours", "key", "seen_hourly"), WORDS)},
    ),
    "a team's defaults": (
        "/t/optics/templates/optics-template/defaults/",
        {},
        dict.fromkeys(("p-offer", "p-hours"), WORDS),
    ),
    "a template's file": ("/console/templates/", {}, {"source": FILES}),
    "a stop": ("/t/optics/workloads/{own}/stop/", {}, {"reason": WORDS}),
    "a deletion": ("/t/optics/workloads/{own}/delete/", {}, {"keep_volumes": WORDS}),
    "an extension": ("/t/optics/workloads/{own}/extend/", {}, {"seconds": WORDS}),
    "a token": (
        "/me/tokens/",
        {"name": "t", "days": "1", "reach_workloads": "read"},
        dict.fromkeys(("name", "days", "tenants", "reach_workloads", "reach_x"), WORDS),
    ),
    "an SSH key": (
        "/me/sign-in/ssh-keys/",
        {"text": line("nobody"), "name": "k"},
        dict.fromkeys(("text", "name"), WORDS),
    ),
    "a sign-in by button": ("/sign-in/demo/", {}, {"person": WORDS, "next": WORDS}),
}
QUERIES = {
    "/": ("part",),
    "/sign-in/": ("next",),
    "/sign-in/with/acme/back/": ("state", "code", "iss", "error"),
    "/console/sign-in/": ("of", "username", "groups"),
    "/live/": ("on",),
    "/t/optics/workloads/": ("after", "phase", "kind", "owner"),
    "/t/optics/new/notebook/": ("offer", "back"),
    "/t/optics/workloads/{own}/logs/": ("after",),
    "/t/optics/new/job/h100-slice/": ("name", "image", "command", "cpu", "count"),
    "/console/queue/": ("part",),
}


@pytest.mark.parametrize("what", FORMS)
def test_a_hostile_form_is_refused_or_taken_as_text(scene: Scene, what: str) -> None:
    path, body, fields = FORMS[what]
    url, found = path.format(own=scene.here.own.pk), []
    for name, value in every(4, [(name, value) for name, values in fields.items() for value in values]):
        with undone():
            client = asking.twin(scene.pages["platform" if path.startswith("/console/") else "lead"])
            answer = client.post(url, urlencode({**body, name: value}), "application/x-www-form-urlencoded")
            found.append(wrong(answer, name, value))
            is_shown = answer.status_code == 303 and any(markup in value for markup in corpus.UNSAFE)
            if is_shown and "/workloads/" in answer["Location"]:
                found.append(wrong(client.get(answer["Location"]), f"the page after {name}", value))
    assert "\n".join(filter(None, found)) == ""


@pytest.mark.parametrize("path", QUERIES)
def test_a_hostile_query_of_a_page_is_refused_or_ignored(scene: Scene, path: str) -> None:
    role = "platform" if path.startswith("/console") else "anonymous" if path == "/sign-in/" else "lead"
    url, found = path.format(own=scene.here.own.pk), []
    for name in QUERIES[path]:
        for value in (*sampled(corpus.for_parameter(name), len(name), 3), "a\x00b"):
            headers = {"HX-Request": "true"} if name == "part" else {}
            answer = scene.pages[role].get(url, {name: value}, headers=headers)
            answer.close()
            found.append(wrong(answer, name, value))
    assert "\n".join(filter(None, found)) == ""


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\\evil.example",
        "\thttps://evil.example",
    ],
)
def test_signing_in_leads_to_no_other_site(scene: Scene, target: str) -> None:
    answer = scene.pages["member"].get("/sign-in/", {"next": target})
    assert (answer.status_code, answer["Location"]) == (303, "/")


def test_a_name_full_of_markup_is_text_on_every_page(scene: Scene) -> None:
    shown = 0
    for text in (text for text in corpus.TEXTS if any(markup in text for markup in corpus.UNSAFE)):
        with undone():
            body = {"tenant": "optics", "name": text, "spec": {**NOTEBOOK, "image": "a/b:1"}}
            made = scene.api["lead"].post("/api/v1/workloads", body, content_type="application/json").json()
            base = f"/t/optics/workloads/{made['id']}/"
            for url in (
                "/",
                "/t/optics/workloads/",
                base,
                f"{base}logs/",
                f"{base}yaml/",
                f"{base}stop/",
                f"{base}delete/",
            ):
                page = scene.pages["lead"].get(url)
                assert wrong(page, url, text) == ""
                shown += (
                    "&lt;" in page.content.decode()
                    or "&quot;" in page.content.decode()
                    or "&#x27;" in page.content.decode()
                )
    assert shown >= 4 * 6


def test_a_form_larger_than_one_mebibyte_is_refused(scene: Scene) -> None:
    answer = scene.pages["lead"].post("/t/optics/workloads/", {**JOB, "command": "a" * 2 * 1024**2})
    assert answer.status_code == 413


def test_more_fields_than_any_form_has_are_refused(scene: Scene) -> None:
    body = urlencode([(f"f{number}", "x") for number in range(1001)])
    answer = scene.pages["lead"].post("/t/optics/workloads/", body, "application/x-www-form-urlencoded")
    assert answer.status_code == 400
    assert b"malformed_request" in answer.content


@pytest.mark.parametrize("path", ["/", "/api/v1/me", "/sign-in/"])
def test_a_host_that_is_not_ours_is_refused(scene: Scene, path: str) -> None:
    answer = scene.pages["lead"].get(path, headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert b"malformed_request" in answer.content
