"""What starts the product says the same everywhere: Procfile, Compose file, Dockerfile, .env.example."""

import re
import subprocess
import sys
from pathlib import Path

import yaml
from honcho.environ import parse_procfile

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()


def test_every_part_of_the_procfile_is_a_service() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    parts = parse_procfile((ROOT / "Procfile").read_text()).processes
    assert set(parts) <= set(services)
    for name in ("worker", "watcher"):
        assert services[name]["command"][0] == parts[name].split()[0]
    assert services["door"]["command"] == parts["door"].split()


def test_the_example_names_every_variable_that_must_be_set() -> None:
    example = (ROOT / ".env.example").read_text()
    needed = set(re.findall(r"\$\{(\w+):-\}", COMPOSE)) | {"ALLOTMENT_PUBLIC_URL"}
    assert {name for name in needed if not re.search(rf"^{name}=", example, re.MULTILINE)} == set()


def test_the_dockerfile_passes_hadolint() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), ROOT / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_image_holds_what_the_product_imports_and_nothing_of_the_tests() -> None:
    product, _, _ = (ROOT / "Dockerfile").read_text().partition(" AS demo")
    copied = set(re.findall(r"^COPY (\w+) \w+$", product, re.MULTILINE))
    assert {"portal", "apps", "templates", "static"} <= copied
    assert not {"tests", "bench", "sandbox", "docs"} & copied
