"""Training on its pages: card, form and review; and what its card says where JobSet is missing."""

from urllib.parse import parse_qsl

from django.test import Client

from tests.conftest import Cast, SignedIn

FIELDS = (
    "image=pytorch:2.9&count=1&cpu=4&memory=16Gi&command=torchrun+train.py&nodes=2&restarts=1&checkpoints=1Ti"
)


def html(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content.decode()[:500]
    return answer.content.decode()


def test_from_its_card_to_the_review(cast: Cast, signed_in: SignedIn) -> None:
    rosa = signed_in(cast.rosa)
    assert 'href="/t/vision/new/training/"' in html(rosa, "/t/vision/new/")
    form = html(rosa, f"/t/vision/new/training/{cast.offer.slug}/")
    for field in ("nodes", "processes", "restarts", "checkpoints", "command"):
        assert f'name="{field}"' in form
    review = html(rosa, f"/t/vision/new/training/{cast.offer.slug}/review/?{FIELDS}")
    assert "kind: JobSet" in review
    assert "2 × " not in review.partition("Offer</dt>")[2][:40], "devices per node, not in all"
    assert "for each of" in review


def test_its_card_says_what_to_install(cast: Cast, signed_in: SignedIn) -> None:
    cluster = cast.vision.cluster
    lacking = {"name": "jobset", "available": False, "message": "Install JobSet 0.12.", "missing": []}
    cluster.capabilities = [lacking]
    cluster.save()
    page = html(signed_in(cast.rosa), "/t/vision/new/")
    assert 'href="/t/vision/new/training/"' not in page
    assert "Install JobSet 0.12." in page
    review = signed_in(cast.rosa).get(f"/t/vision/new/training/{cast.offer.slug}/review/?{FIELDS}")
    assert review.status_code == 409
    assert "Install JobSet 0.12." in review.content.decode()


def test_its_page_says_on_how_many_nodes_it_runs(cast: Cast, signed_in: SignedIn) -> None:
    rosa = signed_in(cast.rosa)
    typed = dict(parse_qsl(FIELDS)) | {"name": "deep", "kind": "training", "offer": cast.offer.slug}
    made = rosa.post("/t/vision/workloads/", typed)
    assert made.status_code == 303, made.content.decode()[:500]
    page = " ".join(html(rosa, made["Location"]).split())
    assert "<dt>Nodes</dt><dd>2" in page
    assert "<dt>Restarts</dt><dd>1 of all nodes" in page
    assert f"1 × {cast.offer.name}, on each node" in page
