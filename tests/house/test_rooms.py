"""Every room's contracts can fail: each is broken on purpose in some rooms, in a copy of the import graph.

`make verify SUITE=units` breaks each in every room.
"""

from collections import Counter
from collections.abc import Iterator
from configparser import ConfigParser
from copy import deepcopy
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph
from importlinter import configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

from tests.sample import every

ROOT = Path(__file__).resolve().parents[2]
TOPS = ["portal", "apps", "sandbox", "agent"]
FLOORS = ("services", "selectors", "rules")
MOST_MODULES = 20
configuration.configure()
CONFIG = ConfigParser()
CONFIG.read(ROOT / ".importlinter")
SESSION = {"root_packages": TOPS, "include_external_packages": "True"}
Options = dict[str, str | list[str]]


def options_of(section: str) -> Options:
    """A section as import-linter reads it: what has several lines is a list."""
    words = {key: value for key, value in CONFIG[section].items() if key != "type"}
    return {
        key: [line.strip() for line in value.splitlines() if line.strip()] if "\n" in value else value
        for key, value in words.items()
    }


def several(options: Options, key: str) -> list[str]:
    found = options.get(key, [])
    return [found] if isinstance(found, str) else found


def layers_of(options: Options) -> list[list[str]]:
    """Top to bottom, siblings together; brackets mark what need not be there."""
    return [[name.strip(" ()") for name in line.split("|")] for line in several(options, "layers")]


def is_kept(section: str, graph: ImportGraph) -> bool:
    """Whether the contract holds; its check may change the graph."""
    options = options_of(section)
    kind = LayersContract if CONFIG[section]["type"] == "layers" else ForbiddenContract
    contract = kind(name=str(options["name"]), session_options=SESSION, contract_options=options)
    return contract.check(graph, verbose=False).kept


def is_kept_with(section: str, graph: ImportGraph, importer: str, imported: str) -> bool:
    broken = deepcopy(graph)
    broken.add_import(importer=importer, imported=imported)
    return is_kept(section, broken)


SECTIONS = [name for name in CONFIG.sections() if name.startswith("importlinter:contract:")]
CONTAINERS = [
    (section, container) for section in SECTIONS for container in several(options_of(section), "containers")
]
HOUSES = [
    (section, container) for section, container in CONTAINERS if CONFIG[section].get("exhaustive") == "True"
]
FORBIDDEN = {
    name: section
    for section in SECTIONS
    if CONFIG[section]["type"] == "forbidden" and (name := section.rpartition(":")[2]) in {"pure", "door"}
}
SOURCES = [
    (section, source)
    for section in FORBIDDEN.values()
    for source in several(options_of(section), "source_modules")
]


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return build_graph(
        *TOPS, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def steps_up(section: str, container: str, graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """For every room of a container: an import of the layer above it and of each of its siblings."""
    there = [
        [f"{container}.{name}" for name in names if f"{container}.{name}" in graph.modules]
        for names in layers_of(options_of(section))
    ]
    there = [names for names in there if names]
    for above, names in zip([[], *there], there, strict=False):
        yield from ((one, other) for one in names for other in (*above, *names) if one != other)


def inside(module: str, graph: ImportGraph) -> str:
    """The room itself, or a module in it: what stands deeper is held to the same contract."""
    return max(graph.find_descendants(module), default=module)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_house_keeps_its_contracts_so_that_a_broken_one_tells_something(
    section: str, graph: ImportGraph
) -> None:
    if CONFIG[section]["type"] in {"layers", "forbidden"}:
        assert is_kept(section, deepcopy(graph))


@pytest.mark.parametrize(("section", "container"), every(4, CONTAINERS))
def test_an_import_that_goes_up_from_any_room_breaks_the_contract(
    section: str, container: str, graph: ImportGraph
) -> None:
    kept = [
        (importer, imported)
        for importer, imported in steps_up(section, container, graph)
        if is_kept_with(section, graph, inside(importer, graph), inside(imported, graph))
    ]
    assert not kept


@pytest.mark.parametrize(("section", "container"), every(4, HOUSES))
def test_a_module_that_stands_in_no_room_breaks_the_contract(
    section: str, container: str, graph: ImportGraph
) -> None:
    more = deepcopy(graph)
    more.add_module(f"{container}.elsewhere")
    assert not is_kept(section, more)


def test_every_app_names_its_rooms(graph: ImportGraph) -> None:
    apps = {app for app in graph.find_children("apps") if graph.find_children(app)}
    assert apps <= {container for _, container in HOUSES}


def test_every_room_with_a_floor_is_held_to_the_floors(graph: ImportGraph) -> None:
    rooms = {room for app in graph.find_children("apps") for room in graph.find_children(app)}
    with_floors = {room for room in rooms if {f"{room}.{floor}" for floor in FLOORS} & graph.modules}
    held = {container for section, container in HOUSES if section.endswith(":floors")}
    # The detector is pure as a whole: its `rules` are the rules of findings, no floor.
    assert with_floors - {"apps.metering.detector"} == held


def test_no_folder_holds_more_modules_than_one_can_look_over() -> None:
    found = [path for top in TOPS for path in (ROOT / top).rglob("*.py") if path.name != "__init__.py"]
    counted = Counter(
        str(path.parent.relative_to(ROOT)) for path in found if path.parent.name != "migrations"
    )
    assert {folder: many for folder, many in counted.items() if many > MOST_MODULES} == {}


@pytest.mark.parametrize(("section", "source"), every(4, SOURCES))
def test_every_room_that_is_forbidden_something_breaks_its_contract_by_it(
    section: str, source: str, graph: ImportGraph
) -> None:
    options = options_of(section)
    allowed = set(several(options, "ignore_imports"))
    named = graph.find_matching_modules(source) if "*" in source else {source} & graph.modules
    assert named, f"{source} stands for nothing"
    rooms = sorted({child for one in named for child in graph.find_children(one) or {one}})
    for room in rooms:
        # All that is forbidden is tried in the first room, one thing in each of the others.
        for target in several(options, "forbidden_modules")[: None if room == rooms[0] else 1]:
            modules = sorted(graph.find_descendants(room) | {room})
            importer = next((m for m in modules if f"{m} -> {target}" not in allowed), None)
            assert importer is None or not is_kept_with(section, graph, importer, target), (room, target)
