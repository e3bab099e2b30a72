"""The removals by which the sample is tried fit the code, so that the list does not rot unseen."""

from collections import Counter

from tests import removals
from tests.house.reading import ROOT

REMOVALS = removals.load()


def test_what_is_taken_out_stands_once_in_its_file_and_another_text_takes_its_place() -> None:
    for removal in REMOVALS:
        whole = (ROOT / removal.file).read_text()
        compile(removal.without(whole), removal.file, "exec")
        assert removal.without(whole) != whole, removal.name


def test_the_tests_of_each_removal_are_there() -> None:
    missing = {path for removal in REMOVALS for path in removal.tests if not (ROOT / path).exists()}
    assert missing == set()


def test_there_are_forty_of_three_kinds_each_of_its_own_name_and_place() -> None:
    kinds = Counter(removal.kind for removal in REMOVALS)
    assert kinds == {"permission": 20, "visibility": 10, "rule": 10}
    assert len({removal.name for removal in REMOVALS}) == 40
    assert len({(removal.file, removal.old) for removal in REMOVALS}) == 40
