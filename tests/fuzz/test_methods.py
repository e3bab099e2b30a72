"""A method that an address does not have is refused as such, whatever else is wrong with the request."""

import pytest

from tests.matrix import routes
from tests.matrix.scene import Scene
from tests.matrix.table import filled, load

pytestmark = pytest.mark.django_db
METHODS = (*routes.METHODS, "TRACE", "QUERY")
REST = {row: view for row, view in routes.served().items() if hasattr(getattr(view, "cls", None), "query")}


def test_a_method_that_is_not_there_is_405_whatever_the_query_says(scene: Scene) -> None:
    wrong = []
    for row, view in REST.items():
        resource = str(load().rows[row].get("ids", "none")).split()[0]
        path = filled(routes.template(row), scene.place(resource, "own", "platform"))
        for method in set(METHODS) - routes.handlers(view) - {"OPTIONS", "HEAD"}:
            answer = scene.api["platform"].generic(method, f"{path}?surprise=1", "{", "text/plain")
            if (answer.status_code, answer.has_header("Allow")) != (405, True):
                wrong.append(f"{method} {row}: {answer.status_code}")
    assert wrong == []
    assert len(REST) > 80
