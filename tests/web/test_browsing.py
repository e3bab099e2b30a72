"""The page of the document has every operation and shape, leads nowhere else, and needs no script."""

import json
import re

from portal.api.declared.description import DOCUMENT, PAGE


def test_it_shows_every_operation_parameter_and_code() -> None:
    page = PAGE.forms[0].body.decode()
    document = json.loads(DOCUMENT.forms[0].body)
    for path, item in document["paths"].items():
        for operation in item.values():
            assert f'id="{operation["operationId"]}"' in page
            assert path in page
            missing = [each["name"] for each in operation.get("parameters", ()) if each["name"] not in page]
            assert missing == []
    for response in document["components"]["responses"].values():
        assert [code for code in response["x-problem-codes"] if code not in page] == []


def test_every_link_within_it_leads_somewhere() -> None:
    page = PAGE.forms[0].body.decode()
    found = re.findall(r' id="([^"]+)"', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(found)
    assert len(found) == len(set(found))


def test_it_has_no_script_and_nothing_from_elsewhere() -> None:
    page = PAGE.forms[0].body.decode()
    assert "<script" not in page
    assert " style=" not in page
    assert re.findall(r'(?:src|href)="(?:https?:)?//[^"]*"', page) == []
