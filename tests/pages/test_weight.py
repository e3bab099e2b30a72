"""What a page weighs, and that every icon it names is drawn."""

import gzip
import re
from pathlib import Path

from apps.workloads.specs import Phase
from apps.workloads.status.story import StepState
from portal.pages.templatetags.page import NOTE_ICONS
from tests.conftest import SignedIn
from tests.pages.conftest import Scene

ROOT = Path(__file__).resolve().parents[2]


def packed(path: str) -> int:
    return len(gzip.compress((ROOT / "static" / path).read_bytes(), 9))


def test_own_script_and_style_keep_their_budgets() -> None:
    alone = {"js/passkeys.js": 1024 + 512, "js/terminal.js": 2 * 1024}
    """On the pages of passkeys and of a terminal, and nowhere else."""
    scripts = {f"js/{path.name}" for path in (ROOT / "static/js").glob("*.js")}
    assert sum(map(packed, scripts - alone.keys())) <= 6 * 1024
    assert {name: packed(name) for name, most in alone.items() if packed(name) > most} == {}
    base = (ROOT / "templates/base.html").read_text()
    assert [name for name in alone if name in base] == []
    assert packed("css/allotment.css") <= 8 * 1024


def test_pages_stay_under_forty_kilobytes_packed(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.petra)
    for url in ("/", "/t/vision/", scene.url(scene.running), "/console/", "/console/nodes/gpu-01/"):
        assert len(gzip.compress(client.get(url).content, 9)) <= 40 * 1024, url


def test_every_icon_that_is_named_is_drawn() -> None:
    drawn = set(re.findall(r'<symbol id="([^"]+)"', (ROOT / "static/icons/sprite.svg").read_text()))
    templates = "".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    named = set(re.findall(r'\{% icon "([^"]+)" %\}', templates))
    named |= set(re.findall(r'\{% (?:pill|note) "[^"]*" "([^"]+)"', templates)) | set(NOTE_ICONS.values())
    named |= {phase.icon for phase in Phase} | {state.icon for state in StepState}
    assert named
    assert named <= drawn
