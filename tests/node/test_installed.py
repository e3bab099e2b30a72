"""The chart in containers of our own image: from `helm install` to a sign-in, a notebook, and back."""

import json
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from apps.accounts.specs import ScopeGroup
from tests.chart.helm import NAMESPACE, RELEASE
from tests.factories import notebook_body
from tests.node.asking import NOTEBOOK
from tests.node.cluster import NodeCluster
from tests.node.images import recipes
from tests.node.installed import Installer, installer
from tests.operate.collector import Collector, served
from tests.patience import patient, until
from tests.story.by_rest import SLICE, ask, reach

pytestmark = [pytest.mark.node, pytest.mark.browser, pytest.mark.exhaustive, pytest.mark.timeout(900)]
WITHIN = float(os.environ.get("FIRST_SIGN_IN_WITHIN", patient(180)))
"""Seconds from `helm install` to the first page of who was invited."""
A_START = patient(60_000)
PARTS = {"web": 2, "worker-default": 2, "beat": 2, "watcher": 2, "proxy": 2}
"""Pods of each part, by the component that labels them."""
PASSWORD = "a long enough password"
LEVEL = "-ojsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}"
"""Of Pod Security, in a namespace."""
INSIDE = "id -u; ! touch /srv/allotment/probe 2>&1; touch /tmp/probe"
"""Its user, and that it writes to /tmp alone."""
ALWAYS = "--image-pull-policy=Always"
"""The tag stays where the image changes."""
MADE = "clusterqueues,cohorts,resourceflavors,deviceclasses"
"""What a first team makes outside its namespace."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with served() as running:
        yield running


@pytest.fixture(params=[recipes.PRODUCT, recipes.TRACED], ids=["product", "traced"])
def product(
    node_cluster: NodeCluster, tmp_path: Path, collector: Collector, request: pytest.FixtureRequest
) -> Iterator[Installer]:
    """The image is on the node, as on one that has run the product before; what a release made is removed.
    The image that can send traces sends all of them.
    """
    plane, image = node_cluster.plane, recipes.reference(request.param)
    recipes.ensure_own(recipes.store_of_this_machine(), request.param)
    plane.kubectl("run", "pull", f"--image={image}", "--restart=Never", ALWAYS, "--command", "--", "true")
    plane.kubectl("wait", "pod/pull", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s")
    plane.kubectl("delete", "pod", "pull")
    traces = collector.server_address[1] if request.param == recipes.TRACED else 0
    with installer(node_cluster, tmp_path, request.param, traces) as found:
        yield found
        found.helm.run("uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found", "--wait")
        plane.kubectl("delete", "secret", "allotment", f"-n{NAMESPACE}", "--ignore-not-found")
        plane.kubectl("delete", "namespaces", "-lallotment.dev/tenant=vision")
        plane.kubectl("delete", MADE, "-lapp.kubernetes.io/managed-by=allotment", "--wait=false")


def first_sign_in(page: Page, link: str) -> None:
    """Ada chooses her password, comes in with it, and sees the fleet."""
    page.goto(link)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat the password").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet", timeout=A_START)


def cluster_answers(page: Page) -> bool:
    page.goto("/console/")
    return page.get_by_role("region", name="Cluster North").get_by_text("Answers", exact=True).is_visible()


def client_of(page: Page, product: Installer) -> httpx.Client:
    """REST as Ada, by a token that she makes."""
    page.goto("/me/tokens/")
    page.get_by_label("Name", exact=True).fill("first steps")
    for group in ScopeGroup:
        page.get_by_label(group.label, exact=True).select_option(label="Read and write")
    page.get_by_role("button", name="Create token").click()
    token = page.get_by_label("Token", exact=True).input_value()
    return httpx.Client(
        base_url=f"https://127.0.0.1:{product.port}/api/v1",
        headers={"Authorization": f"Bearer {token}", "Host": f"allotment.localhost:{product.port}"},
        verify=ssl.create_default_context(cafile=product.cluster.plane.layout.pki.cert("ca")),
        timeout=patient(30),
        trust_env=False,
    )


def a_first_team(page: Page, rest: httpx.Client) -> None:
    """The fleet is offered, and a team of Ada's own has a quota of it."""
    page.goto("/console/offers/")
    page.get_by_role("button", name="Offer all of it").click()
    expect(page.get_by_role("region", name="All offers")).to_contain_text(SLICE, timeout=A_START)
    tenant = {"slug": "vision", "name": "Vision", "spec": {"department": "research"}}
    quota = {"tenant": "vision", "spec": {"offer": SLICE, "nominal_quota": 1}}
    for method, path, body in (
        ("POST", "/departments", {"slug": "research", "name": "Research"}),
        ("POST", "/tenants", tenant),
        ("PUT", "/tenants/vision/members/ada", {"role": "lead"}),
        ("POST", "/quotas", quota),
    ):
        answer = rest.request(method, path, json=body)
        assert answer.is_success, f"{path}: {answer.text}"


def a_first_notebook(page: Page, product: Installer, rest: httpx.Client) -> None:
    """It runs on the node, and opens in the browser."""
    asked = ask(rest, "first", notebook_body(SLICE, image=NOTEBOOK, cpu="250m", memory="1Gi"))
    reach(rest, asked, "Running", 180)
    page.goto(f"/t/vision/workloads/{asked['id']}/")
    expect(page.locator("#head")).to_contain_text("Running")
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open", exact=True).click()
    address = rf"^https://{asked['id']}\.apps\.localhost:{product.port}/lab"
    expect(opened.value).to_have_url(re.compile(address), timeout=A_START)
    expect(opened.value.locator(".jp-LauncherCard").first).to_be_visible(timeout=A_START)
    assert rest.delete(f"/workloads/{asked['id']}", headers={"If-Match": "*"}).status_code == 202
    until(lambda: rest.get(f"/workloads/{asked['id']}").status_code == 404, "the notebook to be gone", 120)


def is_event(line: str) -> bool:
    """A line of a log as a log store reads it."""
    return line.startswith("{") and json.loads(line).keys() >= {"time", "level", "logger", "message"}


def each_part_is_hardened(product: Installer) -> None:
    """None was ended by its probes, and inside each is as the chart asks."""
    pods = product.pods()
    component = "app.kubernetes.io/component"
    parts = [pod["metadata"]["labels"][component] for pod in pods]
    assert {part: parts.count(part) for part in parts} == PARTS
    for pod in pods:
        (state,) = pod["status"]["containerStatuses"]
        assert (state["ready"], state["restartCount"]) == (True, 0), product.told()
    for part in PARTS:
        name = next(pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"][component] == part)
        said = product.cluster.plane.kubectl("exec", f"-n{NAMESPACE}", name, "--", "sh", "-ec", INSIDE)
        assert said.startswith("10001\n"), said
        assert "Read-only file system" in said


def one_trace_from_click_to_apply(collector: Collector) -> None:
    """Of the request for the notebook: portal and worker sent their parts of it."""

    def parts() -> set[tuple[str, str]]:
        return {(each.part, each.name) for each in collector.spans if each.trace == asked.trace}

    (asked,) = until(lambda: collector.named("POST /api/v1/workloads"), "the request's span", 60)
    wanted = {("worker", "reconcile workload"), ("worker", "apply Pod"), ("worker", "workload runs")}
    until(lambda: wanted <= parts(), "the whole trace", 60, told=lambda: str(parts()))
    assert asked.part == "web"


def test_from_helm_install_to_a_notebook_and_back(
    product: Installer,
    collector: Collector,
    chromium: Browser,
    record_property: Callable[[str, object], None],
) -> None:
    assert product.cluster.plane.kubectl("get", "namespace", NAMESPACE, LEVEL) == "restricted"
    product.follow("1. What the cluster needs")
    before = product.objects()
    product.follow("3. What is secret")
    product.follow("4. Values")
    began = time.monotonic()
    product.follow("5. Install")
    ready = time.monotonic() - began
    with product.proxied(), chromium.new_context(base_url=product.url, ignore_https_errors=True) as browser:
        told = product.follow("6. First sign-in", "console")
        (link,) = re.findall(rf"^{re.escape(product.url)}/invite/\S+$", told, re.MULTILINE)
        page = browser.new_page()
        first_sign_in(page, link)
        took = time.monotonic() - began
        record_property("helm install to all ready, seconds", round(ready))
        record_property("helm install to the first sign-in, seconds", round(took))
        print(f"\nall ready after {ready:.0f} s, first sign-in after {took:.0f} s")  # noqa: T201 - for the figures
        each_part_is_hardened(product)
        until(lambda: cluster_answers(page), "the cluster to answer", 60, told=product.told)
        well = product.follow("7. Is all well?", "console")
        with client_of(page, product) as rest:
            a_first_team(page, rest)
            a_first_notebook(page, product, rest)
    if product.image == recipes.TRACED:
        assert "takes spans" in well
        one_trace_from_click_to_apply(collector)
    assert [line for line in product.logs() if not is_event(line)] == []
    product.follow("Remove")
    until(lambda: product.objects() == before, f"nothing of {RELEASE} to be left", 60)
    assert took <= WITHIN
