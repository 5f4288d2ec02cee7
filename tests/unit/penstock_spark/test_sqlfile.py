"""Tests of the SQL parser of pipelines."""

from __future__ import annotations

import pytest

from penstock_client.errors import PenstockClientError
from penstock_spark.pipelines.sqlfile import Definition, definitions, statements


def test_semicolons_in_quotes_and_comments_do_not_end_a_statement() -> None:
    text = "SELECT ';' -- a; b\n, \";\" /* ; */, `a;b`; SELECT 2;;"
    assert [" ".join(one.split()) for one in statements(text)] == ["SELECT ';' , \";\" , `a;b`", "SELECT 2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CREATE STREAMING TABLE a AS SELECT * FROM STREAM b",
            Definition("table", "a", "SELECT * FROM STREAM b"),
        ),
        (
            "create or refresh streaming table `db`.`a` using delta comment 'x' as select 1",
            Definition("table", "db.a", "select 1", format="delta"),
        ),
        ("CREATE STREAMING TABLE a", Definition("table", "a", None)),
        ("CREATE MATERIALIZED VIEW v AS\nSELECT 1", Definition("view", "v", "SELECT 1")),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", Definition("temporary", "v", "SELECT 1")),
        (
            "CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1",
            Definition("flow", "f", "SELECT 1", target="t"),
        ),
        ("SET spark.x = 3", Definition("set", "spark.x", "3")),
    ],
)
def test_each_statement_of_a_pipeline_is_parsed(text: str, expected: Definition) -> None:
    assert list(definitions(text, "file.sql")) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE a", "file.sql: the statement 'DROP TABLE a' is not allowed in a pipeline"),
        ("CREATE MATERIALIZED VIEW v", "file.sql: v has no query"),
    ],
)
def test_other_statements_are_rejected_with_their_text(text: str, expected: str) -> None:
    with pytest.raises(PenstockClientError, match=expected):
        list(definitions(text, "file.sql"))
