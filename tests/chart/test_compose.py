"""The Compose file, judged by Docker's own loader; and the product as it says, to the first sign-in."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import services
from tests.chart import compose
from tests.chart.compose import PARTS, ROOT, Stack
from tests.patience import until
from tests.ports import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GUIDE = ROOT / "docs" / "operating.md"
PORTAL, APPS = "allotment.localhost", "apps.localhost"
SANDBOX = [sys.executable, "-m", "sandbox", "up", "--fleet", "laptop"]
PASSWORD = "a password that nobody guesses"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    path.write_text((ROOT / ".env.example").read_text())
    return path


@pytest.mark.plane
def test_the_two_profiles_are_the_demo_and_everything_else(environment: Path) -> None:
    assert set(compose.resolve(environment, "demo")["services"]) == {"demo"}
    full = compose.resolve(environment, "full")["services"]
    assert set(full) == {"postgres", "redis", "migrate", "proxy", *PARTS}
    assert set(compose.resolve(environment)["services"]) == set()


@pytest.mark.plane
def test_every_part_that_goes_on_has_a_health_check_and_no_way_to_write(environment: Path) -> None:
    for profile in ("demo", "full"):
        for name, service in compose.resolve(environment, profile)["services"].items():
            check = service.get("healthcheck", {})
            assert name in ("migrate", "web") or check.get("test"), name
            if name not in ("postgres", "redis"):
                assert service["read_only"], name
                assert service["cap_drop"] == ["ALL"], name
            ports = [each["published"] for each in service.get("ports") or ()]
            assert bool(ports) is (name == "proxy"), name


@pytest.mark.plane
def test_no_secret_is_in_the_file_or_the_environment(environment: Path) -> None:
    """RULE: files alone hold them, which Compose mounts where the product looks."""
    full = compose.resolve(environment, "full")
    named = {each["source"] for service in full["services"].values() for each in service.get("secrets") or ()}
    assert named == set(full["secrets"])
    words = re.compile("secret_key|password|database_url", re.IGNORECASE)
    for service in full["services"].values():
        given = {
            key for key, value in (service.get("environment") or {}).items() if value and words.search(key)
        }
        assert given <= {"POSTGRES_PASSWORD_FILE"}


@pytest.fixture
def home() -> Iterator[Path]:
    """Where another user's PostgreSQL may write, which is in no folder of pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def running(home: Path) -> Iterator[Stack]:
    """The services of `full` with secrets as the guide makes them, and a simulated cluster."""
    ports = compose.ports()
    _make_secrets(home)
    environment = home / "env"
    environment.write_text(
        f"PORTAL_HOST={PORTAL}\nAPPS_DOMAIN={APPS}\nSECRETS={home}/secrets\n"
        f"ALLOTMENT_PUBLIC_URL=https://{PORTAL}:{ports['https']}\nALLOTMENT_APPS_URL=https://{APPS}:{ports['https']}\n"
        f"ALLOTMENT_DOOR_PORT={ports['door']}\nSUBNET=127.0.0.0/8\n"
    )
    database, redis = services.postgres(home), services.redis(home)
    elsewhere = {
        r"redis://redis:6379/0": redis,
        r"@postgres:5432/allotment": database.partition("//allotment")[2],
        r"resolver [^;]*;": "",
        r"\b(web|door)\b(?=:\d)": "127.0.0.1",
        r"\b8000\b": str(ports["web"]),
        r"\b8001\b": str(ports["door"]),
        r"\b8443\b": str(ports["https"]),
        r"\b8080\b": str(ports["http"]),
    }
    folder = _with_env(home)
    made = Stack(compose.resolve(environment, "full", folder=folder), home, elsewhere)
    cluster = subprocess.Popen([*SANDBOX, "--dir", home / "cluster", "--port", str(free_port())], cwd=ROOT)
    try:
        until((home / "cluster" / "kubeconfig").exists, "the cluster", 60)
        (home / "secrets" / "kubeconfig").write_text((home / "cluster" / "kubeconfig").read_text())
        yield made
    finally:
        made.stop_all()
        cluster.terminate()
        cluster.wait(30)
        services.down(home)


@pytest.mark.exhaustive
@pytest.mark.browser
@pytest.mark.timeout(400)
def test_from_the_files_to_a_first_sign_in(running: Stack, chromium: "Browser") -> None:
    running.run("web", "python", "manage.py", "collectstatic", "--noinput")  # a step of the image's
    running.run("migrate")
    for name in PARTS:
        running.start(name)
    running.wait(*PARTS)
    running.start_proxy()
    running.wait("proxy")
    said = running.run(
        "web", "python", "manage.py", "bootstrap", "--name", "Ada Lovelace", "--email", "ada@example.org",
        "--cluster", "north", "--kubeconfig", f"{running.home}/web-secrets/kubeconfig",
    )  # fmt: skip
    (link,) = re.findall(r"https://\S+", said)
    page = chromium.new_context(ignore_https_errors=True).new_page()
    page.goto(link)
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=again]").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    page.locator("[name=username]").fill("ada")
    page.locator("[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Fleet").wait_for()
    page.goto(f"{link.partition('/invite/')[0]}/console/")
    page.locator("#cluster-north").wait_for()
    # A part that dies is made anew, and the proxy leads to it.
    running.stop("web")
    assert not running.is_healthy("proxy")
    running.start("web")
    running.wait("web", "proxy")
    page.reload()
    page.locator("#cluster-north").wait_for()


def _make_secrets(home: Path) -> None:
    """By the guide's own block; certificates and kubeconfig are an installer's."""
    guide = GUIDE.read_text()
    block = guide[guide.index("```sh\nmkdir -m 700 secrets") :].partition("\n")[2].partition("```")[0]
    subprocess.run(["bash", "-euc", block], cwd=home, check=True)
    for name, host in (("portal", PORTAL), ("apps", f"*.{APPS}")):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}",
             "-keyout", f"{name}.key", "-out", f"{name}.crt"],
            cwd=home / "secrets", check=True, capture_output=True,
        )  # fmt: skip
    (home / "secrets" / "kubeconfig").touch()


def _with_env(home: Path) -> Path:
    """The Compose file beside an `.env`, as an installer has them."""
    folder = home / "checkout"
    folder.mkdir()
    for name, source in (("docker-compose.yml", ROOT / "docker-compose.yml"), (".env", home / "env")):
        (folder / name).write_text(source.read_text())
    return folder
