"""Templates are read by people: no long line. djlint holds the same width (`.djlint_rules.yaml`)."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 140


def test_no_line_of_a_template_is_too_long() -> None:
    templates = list((ROOT / "templates").rglob("*"))
    assert len(templates) > 50
    long = [
        f"{path.relative_to(ROOT)}:{number} has {len(line)} characters"
        for path in templates
        if path.is_file()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert not long, "\n".join(long)
