"""The matrix is worth something only if it fails: an address without a row, a row without an address, REST
that OpenAPI does not know, and a view that answers too much.
"""

from dataclasses import replace
from types import ModuleType
from typing import Any, TypedDict

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.base.views import ApiView
from portal.api.declared.declaring import answers
from tests.matrix import asking, routes
from tests.matrix.scene import Scene
from tests.matrix.table import Table, gaps, load

TABLE = load()
PAGE = "/t/<slug:tenant>/secret/"
REST = "/api/v1/secrets/<str:pk>"


class SecretBody(TypedDict):
    """What nobody may see."""

    secret: str


class SecretsView(ApiView):
    """Hands out anything to anybody who has a token."""

    scope_group = None

    @answers(200, SecretBody)
    def get(self, _request: Request, pk: str) -> Response:
        """The secret."""
        return Response({"secret": pk})


class HiddenView(SecretsView):
    """The same, kept out of the description."""

    schema = None  # type: ignore[assignment]


def leaky_page(_request: HttpRequest, tenant: str) -> HttpResponse:
    return HttpResponse(f"the secret of {tenant}")


def with_routes(*extra: Any) -> Any:
    urlconf: Any = ModuleType("more_routes")
    urlconf.urlpatterns = [*extra, path("", include("portal.urls"))]
    urlconf.handler404 = "portal.handlers.not_found"
    return urlconf


def with_row(address: str, **row: Any) -> Table:
    return replace(TABLE, rows={**TABLE.rows, address: row})


def found(urlconf: Any, table: Table = TABLE) -> list[str]:
    return gaps(table, routes.served(urlconf), routes.described(urlconf))


def test_a_page_without_a_row_is_found() -> None:
    urlconf = with_routes(path("t/<slug:tenant>/secret/", leaky_page))
    assert found(urlconf) == [f"{PAGE} is served and has no row"]


def test_a_row_without_a_route_is_found() -> None:
    assert found(with_routes(), with_row(PAGE, ids="tenant", GET="page")) == [
        f"{PAGE} has a row and is not served"
    ]


def test_a_rest_address_that_openapi_does_not_know_is_found() -> None:
    urlconf = with_routes(path("api/v1/secrets/<str:pk>", HiddenView.as_view()))
    assert found(urlconf, with_row(REST, ids="workload", GET="read")) == [
        f"{REST} answers ['GET'], OpenAPI has []"
    ]


def test_an_operation_of_openapi_that_is_not_served_is_found() -> None:
    urlconf = with_routes(path("api/v1/secrets/<str:pk>", SecretsView.as_view()))
    problems = gaps(TABLE, routes.served(), routes.described(urlconf))
    assert problems == ["OpenAPI has /api/v1/secrets/{}, which is not served"]


def test_a_method_without_an_entry_is_found() -> None:
    urlconf = with_routes(path("api/v1/secrets/<str:pk>", SecretsView.as_view()))
    assert found(urlconf, with_row(REST, ids="workload", POST="read")) == [
        f"{REST} answers ['GET'], its row has ['POST']"
    ]


def test_a_pattern_that_leaves_somebody_out_is_an_error() -> None:
    table = replace(
        with_row(PAGE, ids="tenant", GET="half"), patterns={**TABLE.patterns, "half": {"member": "ok"}}
    )
    with pytest.raises(LookupError, match="half does not say what anonymous gets"):
        list(table.cells(PAGE))


@pytest.mark.django_db
def test_views_that_answer_too_much_are_found(scene: Scene) -> None:
    urlconf = with_routes(
        path("t/<slug:tenant>/secret/", leaky_page), path("api/v1/secrets/<str:pk>", SecretsView.as_view())
    )
    for address, row in (
        (PAGE, {"ids": "tenant", "GET": "page"}),
        (REST, {"ids": "workload", "GET": "read"}),
    ):
        table = with_row(address, **row)
        cells = [
            c for c in table.cells(address) if c.method == "GET" and c.role == "member" and c.kind == "other"
        ]
        with override_settings(ROOT_URLCONF=urlconf):
            wrong = [asking.wrong(scene, table, cell, asking.ask(scene, table, cell)) for cell in cells]
        assert wrong == [f"GET {address} as member, id other: 200 instead of hidden (404 not_found)"]


@pytest.mark.django_db
def test_an_allowed_answer_that_names_the_other_side_is_found(scene: Scene) -> None:
    def told(_request: HttpRequest, tenant: str) -> HttpResponse:
        return HttpResponse(f"{tenant} is next to {scene.there.tenant.slug}")

    table = with_row(PAGE, ids="tenant", GET="page")
    cell = next(c for c in table.cells(PAGE) if c.method == "GET" and c.role == "member" and c.kind == "own")
    with override_settings(ROOT_URLCONF=with_routes(path("t/<slug:tenant>/secret/", told))):
        problem = asking.wrong(scene, table, cell, asking.ask(scene, table, cell))
    assert problem.endswith("names ['genomics']")


def test_a_random_text_that_holds_a_name_by_chance_is_no_leak() -> None:
    assert asking.named(HttpResponse("key=aXottoQ9 otto2 rottos"), ["otto"]) == []
    assert asking.named(HttpResponse("run-of-otto, otto"), ["otto"]) == ["otto"]
    assert asking.named(HttpResponse('nonce="otto"'), ["otto"]) == []
