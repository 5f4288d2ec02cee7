"""Tests of the console's other pages, and of SQL."""

from __future__ import annotations

from typing import Any

import pytest

from penstock_console.endpoints import Endpoint
from penstock_console.routes import ENDPOINTS
from tests.compat.conftest import MakeTopic
from tests.compat.console.conftest import Write
from tests.support.console import Browser
from tests.support.eventually import eventually

LISTS = [endpoint for endpoint in ENDPOINTS if endpoint.method == "GET" and "{" not in endpoint.path]
EXPECTED = {"acls": 400, "acls/check": 400, "history": 400}


@pytest.mark.parametrize("endpoint", LISTS, ids=lambda endpoint: endpoint.path)
def test_every_page_answers(browser: Browser, endpoint: Endpoint) -> None:
    answer = browser.get(f"/api/c/local/{endpoint.path}")
    assert answer.status == EXPECTED.get(endpoint.path, 200), answer.body
    assert answer.headers["content-type"] == "application/json"


def test_the_overview_has_nodes_and_the_quorum(browser: Browser) -> None:
    found = browser.read("overview")
    assert [node["node"] for node in found["nodes"]] == [1]
    assert found["quorum"]["leader"] == found["controller"] == 1
    assert found["cluster_id"]


def test_topics_are_searched_sorted_and_paged(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    names = [make_topic(partitions=count) for count in (1, 2, 3)]
    write(names[0], [b"x"] * 5)
    prefix = names[0].rpartition("-")[0]

    def listed() -> set[str]:
        return {row["topic"] for row in browser.read("topics", search=prefix, size=500)["topics"]}

    # The list may be a few seconds old.
    eventually(lambda: set(names) <= listed())
    found = browser.read("topics", search=prefix, size=500)
    rows = {row["topic"]: row for row in found["topics"]}
    assert (rows[names[0]]["offsets"], rows[names[0]]["partitions"]) == (5, 1)
    assert rows[names[0]]["bytes"] > 0
    page = browser.read("topics", search=prefix, size=1, page=2)
    assert page["total"] == found["total"] and len(page["topics"]) == 1
    ordered = browser.read("topics", search=prefix, sort="partitions", order="desc", size=500)["topics"]
    assert [row["topic"] for row in ordered if row["topic"] in names] == list(reversed(names))
    by_name = browser.read("topics", search=prefix, sort="name", order="desc", size=500)["topics"]
    assert [row["topic"] for row in by_name] == sorted((row["topic"] for row in by_name), reverse=True)
    for key in ("rate", "replication_factor"):
        assert len(browser.read("topics", search=prefix, sort=key, size=500)["topics"]) == found["total"]


def test_a_topic_shows_its_partitions(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=2)
    write(topic, [b"x"] * 3, partition=1)
    found = browser.read(f"topics/{topic}")
    assert [(row["partition"], row["leader"], row["latest"]) for row in found["partitions"]] == [(0, 1, 0), (1, 1, 3)]
    skew = browser.read(f"topics/{topic}/skew")
    assert [row["recent"] for row in skew["partitions"]] == [0, 3]


def test_the_history_is_sampled(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic()
    write(topic, [b"x"])

    def samples() -> list[Any]:
        found = browser.read("history", series=f"topic.rate:{topic}", window="15m")
        return [value for value in found["series"][f"topic.rate:{topic}"] if value is not None]

    eventually(lambda: bool(samples()), what="a sample of the rate")


def test_a_node_shows_its_log_directories(browser: Browser) -> None:
    found = browser.read("nodes/1")
    assert found["log_dirs"][0]["path"]
    assert browser.get("/api/c/local/nodes/99").status == 404
    assert browser.get("/api/c/local/nodes/x").status == 400


def test_sql_reads_tables_and_records(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic()
    write(topic, [b'{"id": %d}' % number for number in range(10)])

    def run(sql: str, **more: Any) -> Any:
        answer = browser.post("/api/c/local/sql", {"sql": sql, **more})
        assert answer.status == 200, answer.body
        return answer.json

    assert run(f"SELECT name FROM Topic WHERE name = '{topic}'")["rows"] == [[topic]]
    assert run(f"SELECT count(*) AS n FROM topic('{topic}')")["rows"] == [[10]]
    found = run(f"SELECT value FROM topic('{topic}') ORDER BY \"offset\"", count=3)
    assert found["more"] and len(found["rows"]) == 3
    exact = run(f"SELECT 9223372036854775807, '\\xff'::BLOB, now() FROM topic('{topic}') LIMIT 1")["rows"][0]
    assert exact[0] == "9223372036854775807" and exact[1] == "\\xff"


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT",
        "DROP TABLE Topic",
        "SELECT * FROM Nothing",
        "SELECT 1; SELECT 2",
        "ATTACH 'x' AS y",
        "SELECT * FROM read_csv('/etc/passwd'), topic('x')",
        "COPY (SELECT 1) TO '/tmp/x'",
        "SELECT load_extension('x')",
        "SELECT '\0'",
        "PRAGMA database_list",
    ],
)
def test_bad_sql_is_rejected(browser: Browser, sql: str) -> None:
    answer = browser.post("/api/c/local/sql", {"sql": sql})
    assert answer.status == 400, answer.body
    assert answer.json["error"]["message"]


def test_the_api_is_described(browser: Browser) -> None:
    found = browser.get("/api/openapi.json").json
    assert found["openapi"].startswith("3.1")
    assert "/api/c/{cluster}/topics/{topic}/records/tail" in found["paths"]
