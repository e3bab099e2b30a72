"""What an installer may set: the settings of portal/config.py, as it takes them, and nothing secret."""

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from portal.config import Config
from tests import yamls
from tests.chart.helm import CHART, LEAST, MOST, Values
from tests.chart.wrong import WRONG

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yamls.document((CHART / "values.yaml").read_text())
OF_THE_CHART = {"alive_file",
    "home", "mode", "demo", "bind", "port", "door_port", "door_check_port", "door_service", "gateway",
}  # fmt: skip
"""What the chart decides itself: in a cluster there is one right answer."""
FROM_SECRETS = {"secret_key", "old_secret_keys", "database_url", "redis_url", "metrics_token", "oidc"}
STRICTER = {"public_url", "apps_url"}
"""A chart's installation is in production, which is served by https alone."""


def merged(values: Values, onto: Values = DEFAULTS) -> Values:
    """As Helm lays values over the chart's own."""
    both = dict(onto)
    for key, value in values.items():
        known = both.get(key)
        both[key] = merged(value, known) if isinstance(value, dict) and isinstance(known, dict) else value
    return both


def problems(values: Values) -> list[str]:
    found = Draft7Validator(SCHEMA).iter_errors(merged(values))
    return sorted(f"/{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found)


def test_the_schema_itself_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


def test_every_setting_is_the_installers_the_charts_or_from_a_secret() -> None:
    offered = set(SCHEMA["properties"]["settings"]["properties"])
    assert offered | OF_THE_CHART | FROM_SECRETS == set(Config.model_fields)
    assert not offered & (OF_THE_CHART | FROM_SECRETS)


@pytest.mark.parametrize("name", sorted(set(Config.model_fields) - OF_THE_CHART - FROM_SECRETS))
def test_a_setting_has_the_limits_that_the_product_has(name: str) -> None:
    wanted = Config.model_json_schema()["properties"][name]
    limits = {key: value for key, value in wanted.items() if key not in ("title", "default", "format")}
    offered = SCHEMA["properties"]["settings"]["properties"][name]
    if name in STRICTER:
        assert offered["pattern"].startswith(("^https://", "^(https://"))
        limits, offered = ({**each, "pattern": "", "description": ""} for each in (limits, offered))
    assert offered == limits


@pytest.mark.parametrize("values", [LEAST, MOST], ids=["least", "most"])
def test_right_values_are_accepted(values: Values) -> None:
    assert problems(values) == []


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[words for _, words in WRONG])
def test_wrong_values_are_refused_where_they_stand(values: Values, words: str) -> None:
    found = problems(merged(values, LEAST))
    assert len(found) == 1, found
    assert found[0].startswith(words), found


def test_every_value_is_described_by_the_schema() -> None:
    """A value that the schema does not know would be refused as soon as somebody writes it."""

    def unknown(values: Values, schema: dict[str, Any], place: str) -> list[str]:
        known = schema.get("properties")
        if known is None:
            return []
        return [
            path
            for key, value in values.items()
            for path in (
                [f"{place}/{key}"]
                if key not in known
                else unknown(value, known[key], f"{place}/{key}")
                if isinstance(value, dict)
                else []
            )
        ]

    assert unknown(DEFAULTS, SCHEMA, "") == []
    assert set(SCHEMA["properties"]) - {"global"} == set(DEFAULTS)


def test_no_value_holds_a_secret() -> None:
    """Where a Secret is meant, its name and its key are all that can be said."""
    for name in ("secretKey", "database", "redis", "metricsToken"):
        assert set(SCHEMA["properties"][name]["properties"]) == {"existingSecret", "key"}
    assert not {"secret", "password", "token"} & set(SCHEMA["properties"])
