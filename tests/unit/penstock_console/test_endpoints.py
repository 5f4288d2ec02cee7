import re
from pathlib import Path

import pytest

from penstock_console.changes.table import CHANGES
from penstock_console.endpoints import match, split_path
from penstock_console.errors import ApiError
from penstock_console.openapi import describe
from penstock_console.routes import ENDPOINTS

CONTRACT = Path(__file__).parents[3] / "docs/internals/console.md"


def test_a_name_may_contain_a_slash() -> None:
    assert split_path("/c/local/groups/a%2Fb%20%C3%A9") == ["c", "local", "groups", "a/b é"]


def test_a_path_that_is_no_text_is_rejected() -> None:
    with pytest.raises(ApiError):
        split_path("/c/%ff")


def test_a_literal_segment_is_found_before_a_name() -> None:
    found = match(ENDPOINTS, "GET", ["topics", "orders", "records", "tail"])
    assert found is not None and found.endpoint.path == "topics/{topic}/records/tail"
    found = match(ENDPOINTS, "GET", ["topics", "orders", "records", "0", "42"])
    assert found is not None and found.path == {"topic": "orders", "partition": "0", "offset": "42"}
    assert match(ENDPOINTS, "POST", ["topics"]) is None


def test_no_two_endpoints_have_the_same_path() -> None:
    found = [(endpoint.method, re.sub(r"\{\w+\}", "{}", endpoint.path)) for endpoint in ENDPOINTS]
    assert len(found) == len(set(found))


def test_every_change_is_a_post_under_the_path_that_read_only_refuses() -> None:
    posts = {endpoint.path for endpoint in ENDPOINTS if endpoint.method == "POST"}
    assert {path for path in posts if not path.startswith("changes/")} == {"sql"}


def test_every_endpoint_is_described() -> None:
    paths = describe(ENDPOINTS)["paths"]
    for endpoint in ENDPOINTS:
        operation = paths[f"/api/c/{{cluster}}/{endpoint.path}"][endpoint.method.lower()]
        assert operation["summary"] == endpoint.doc
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert {parameter.name for parameter in endpoint.parameters} <= names


def test_every_endpoint_is_in_the_contract() -> None:
    text = re.sub(r"<\w+>", "{}", CONTRACT.read_text(encoding="utf-8"))
    for endpoint in ENDPOINTS:
        path = "/" + re.sub(r"\{\w+\}", "{}", endpoint.path)
        assert path in text, f"{path} is not in {CONTRACT.name}"


def test_every_change_is_in_the_contract_with_its_arguments() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    for change in CHANGES.values():
        row = next(line for line in text.splitlines() if line.startswith("|") and f"`{change.action}`" in line)
        for argument in change.arguments:
            assert f"`{argument}`" in row, f"{argument} of {change.action} is not in {CONTRACT.name}"
