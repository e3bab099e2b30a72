"""The surfaces stand in `portal/pages` and `portal/api` and nowhere else; they write through services."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_SURFACES = (
    "django.forms",
    "django.shortcuts",
    "django.template",
    "django.urls.include",
    "django.urls.path",
    "django.urls.re_path",
    "django.views",
    "drf_spectacular",
    "rest_framework.authentication",
    "rest_framework.negotiation",
    "rest_framework.parsers",
    "rest_framework.renderers",
    "rest_framework.serializers",
    "rest_framework.views",
)
"""What only views, forms, serializers and routes are made of."""
WRITES = frozenset(
    {"save", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "aupdate", "asave", "acreate"}
)
OF_QUERYSETS = frozenset({"create", "delete", "update"})
MOST_FILES = 20


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def surfaces_in(source: str) -> list[str]:
    """What of a surface a module imports."""
    return [
        name
        for name in imported(source)
        if any(name == each or name.startswith(f"{each}.") for each in OF_SURFACES)
    ]


def writes_in(source: str) -> list[str]:
    """Rows that a module writes by itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called, on = node.func.attr, ast.unparse(node.func.value)
        if called in WRITES or (called in OF_QUERYSETS and ".objects" in on):
            found.append(f"{on}.{called}")
    return found


def borrowed_in(source: str) -> list[str]:
    """Views of REST that a module subclasses although they are another resource's."""
    tree = ast.parse(source)
    known = {
        each.asname or each.name: f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    bases = (base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases)
    named = (ast.unparse(base).split("[")[0].split(".") for base in bases)
    found = [".".join([known.get(first, first), *rest]) for first, *rest in named]
    return [
        name
        for name in found
        if re.fullmatch(r"portal\.api\.\w+\.\w+\.\w*View\w*|portal\.api\..*(List|Detail|Workload)", name)
        and not name.startswith("portal.api.base.")
        and name.split(".")[3] != "views"
    ]


def modules(top: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / top).rglob("*.py")):
        if "migrations" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()


def test_no_app_holds_a_view_a_form_a_serializer_or_a_route() -> None:
    assert {name: found for name, text in modules("apps") if (found := surfaces_in(text))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from django import forms",
        "from django.urls import path",
        "from django.shortcuts import render",
        "from django.views.decorators.http import require_safe",
        "from rest_framework import serializers",
        "from rest_framework.views import APIView",
    ],
)
def test_each_of_them_would_be_found(line: str) -> None:
    assert surfaces_in(f"{line}\n")


@pytest.mark.parametrize("surface", ["portal/pages", "portal/api"])
def test_no_surface_writes_a_row(surface: str) -> None:
    assert {name: found for name, text in modules(surface) if (found := writes_in(text))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "row.save()",
        "Offer.objects.create(slug='x')",
        "Offer.objects.filter(pk=1).update(slug='x')",
        "Offer.objects.filter(pk=1).delete()",
    ],
)
def test_each_write_would_be_found(line: str) -> None:
    assert writes_in(line)


def test_no_view_of_rest_is_another_resource_s() -> None:
    assert {name: found for name, text in modules("portal/api") if (found := borrowed_in(text))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from portal.api.quotas import catalogue\nclass PricesView(catalogue.PricesView): ...",
        "from portal.api.tenants.tenants import TenantView as Other\nclass TenantView(Other): ...",
        "from portal.api.workloads.workloads import WorkloadDetail\nclass Queue(WorkloadDetail): ...",
    ],
)
def test_each_borrowed_view_would_be_found(source: str) -> None:
    assert borrowed_in(source)


def test_no_folder_of_the_surfaces_holds_more_than_twenty_files() -> None:
    folders = [ROOT / "portal", ROOT / "templates"]
    folders += [each for top in folders for each in top.rglob("*") if each.is_dir()]
    counts = {str(f.relative_to(ROOT)): sum(each.is_file() for each in f.iterdir()) for f in folders}
    crowded = {
        name: count for name, count in counts.items() if count > MOST_FILES and "__pycache__" not in name
    }
    assert crowded == {}
