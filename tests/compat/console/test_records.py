"""Tests of the console's records: pages, one record, downloads, search, live tail, hostile contents and limits."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock_console.limits import STREAMS_MAX
from tests.compat.conftest import MakeTopic
from tests.compat.console.conftest import MASKED, Write
from tests.support.console import Browser
from tests.support.eventually import eventually

HOSTILE = [
    b"<script>alert(1)</script>",
    b'"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u2066".encode(),
    b"\x00\x01\x02NUL",
    b"\xff\xfe\xfd",
    b"\x1b[31mred",
    b"x" * 1_000_000,
    b"=HYPERLINK(1)",
    b"event: rows\ndata: {}\n\n",
    b"{" * 100_000,
]


def values(rows: list[dict[str, Any]]) -> list[str]:
    return [row["value"]["text"] for row in rows]


def all_pages(browser: Browser, topic: str, **query: Any) -> list[dict[str, Any]]:
    """Read page after page until the end."""
    name = "before" if query.get("order") == "desc" else "after"
    rows: list[dict[str, Any]] = []
    while True:
        page = browser.read(f"topics/{topic}/records", **query)
        rows += page["rows"]
        if page["next"] is None:
            return rows
        query = {**query, name: page["next"]}
        query.pop("from", None)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("selection", [{}, {"text": "value"}])
def test_pages_contain_every_record_once(
    browser: Browser, make_topic: MakeTopic, write: Write, order: str, selection: dict[str, str]
) -> None:
    topic = make_topic(partitions=3)
    for index, count in enumerate((7, 0, 12)):
        write(topic, [b"value %d-%d" % (index, number) for number in range(count)], partition=index)
    rows = all_pages(browser, topic, order=order, count=4, **selection)
    found = [(row["partition"], row["offset"]) for row in rows]
    assert sorted(found) == [(0, number) for number in range(7)] + [(2, number) for number in range(12)]
    for index in (0, 2):
        own = [offset for partition, offset in found if partition == index]
        assert own == sorted(own, reverse=order == "desc")


def test_a_position_is_an_offset_a_time_or_a_number_of_records(
    browser: Browser, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic()
    write(topic, [b"%d" % number for number in range(10)])
    path = f"topics/{topic}/records"
    assert values(browser.read(path, **{"from": "7"})["rows"]) == ["7", "8", "9"]
    assert values(browser.read(path, **{"from": "-2"})["rows"]) == ["8", "9"]
    assert values(browser.read(path, **{"from": "1h"})["rows"]) == [str(number) for number in range(10)]
    assert browser.read(path, **{"from": "latest"})["rows"] == []
    assert values(browser.read(path, order="desc", count=3)["rows"]) == ["9", "8", "7"]


def test_records_are_selected_by_text_key_and_condition(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic()
    write(
        topic, [(b"k%d" % (number % 3), b'{"id": %d, "name": "it\'s %d"}' % (number, number)) for number in range(30)]
    )
    path = f"topics/{topic}/records"
    assert len(browser.read(path, key="k1")["rows"]) == 10
    assert values(browser.read(path, text="it's 7")["rows"]) == ['{"id": 7, "name": "it\'s 7"}']
    where = "(value->>'$.id')::INT >= 28"
    assert len(browser.read(path, where=where)["rows"]) == 2
    assert len(browser.read(path, where=where, key="k1", order="desc")["rows"]) == 1
    assert "--where" in browser.read(path, where=where)["command"]


def test_json_is_shown_in_columns_with_every_digit(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic()
    write(topic, [b'{"id": 9223372036854775807, "price": 1.10}', b'{"id": 1, "more": [1, 2]}', b"text"])
    page = browser.read(f"topics/{topic}/records", view="columns")
    assert page["columns"] == ["id", "price", "more"]
    assert [row["cells"] for row in page["rows"]] == [
        {"id": "9223372036854775807", "price": "1.10"},
        {"id": "1", "more": "[1, 2]"},
        {},
    ]


def test_one_record_is_shown_in_every_format(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic()
    write(topic, [b"first", b'{"id":9223372036854775807}', b"last"])
    found = browser.read(f"topics/{topic}/records/0/1")
    assert found["formats"]["json"] == '{\n  "id": 9223372036854775807\n}'
    assert (found["previous"], found["next"]) == (0, 2)
    assert browser.get(f"/api/c/local/topics/{topic}/records/0/1/value").body == b'{"id":9223372036854775807}'
    answer = browser.get(f"/api/c/local/topics/{topic}/records/0/3")
    assert answer.status == 404
    assert "the log holds offsets 0 to 2" in answer.json["error"]["message"]


def test_a_large_record_is_cut_and_can_be_downloaded(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(config={"max.message.bytes": "50000000"})
    large = b'{"a": "' + b"x" * 18_000_000 + b'"}'
    write(topic, [b"small", large])
    for query in ({"order": "desc"}, {"from": "0"}):
        rows = browser.read(f"topics/{topic}/records", **query)["rows"]
        assert {row["value"]["size"] for row in rows} == {5, len(large)}
        assert all(len(row["value"]["text"]) <= 200 for row in rows)
    answer = browser.get(f"/api/c/local/topics/{topic}/records/0/1")
    assert len(answer.body) < 1_000_000
    assert browser.get(f"/api/c/local/topics/{topic}/records/0/1/value").body == large


def test_hostile_contents_are_returned_as_data(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(config={"max.message.bytes": "5000000"})
    write(topic, [(content, content) for content in HOSTILE])
    answer = browser.get(f"/api/c/local/topics/{topic}/records", view="columns")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    rows = answer.json["rows"]
    assert len(rows) == len(HOSTILE)
    for row, content in zip(rows, HOSTILE, strict=True):
        assert row["value"]["size"] == len(content)
        assert len(row["value"]["text"]) <= 200
    for offset in range(len(HOSTILE)):
        assert browser.get(f"/api/c/local/topics/{topic}/records/0/{offset}").status == 200
    with browser.events(f"topics/{topic}/records/tail", **{"from": "earliest"}) as events:
        seen = 0
        for event in events:
            assert event.name == "rows"
            seen += len(event.data["rows"])
            if seen == len(HOSTILE):
                break


def test_a_download_contains_every_record(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=2)
    for index in range(2):
        write(topic, [b"=1+%d" % number for number in range(700)], partition=index)
    answer = browser.get(f"/api/c/local/topics/{topic}/records/download", format="json")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert len({(line["partition"], line["offset"]) for line in lines}) == len(lines) == 1400
    assert answer.headers["content-disposition"].startswith("attachment")
    answer = browser.get(f"/api/c/local/topics/{topic}/records/download", format="csv", count=10, order="desc")
    head, *rows = csv.reader(io.StringIO(answer.body.decode()))
    assert head[:2] == ["partition", "offset"]
    assert len(rows) == 10
    # A spreadsheet does not compute them.
    assert all(row[4].startswith("'=1+") for row in rows)


def test_a_tail_shows_new_records_and_continues_after_a_reconnect(
    browser: Browser, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=2)
    write(topic, [b"old"])
    with browser.events(f"topics/{topic}/records/tail") as events:
        assert next(events).data["rows"] == []
        write(topic, [b"one", b"two"])
        seen: list[str] = []
        for event in events:
            seen += values(event.data["rows"])
            if len(seen) == 2:
                break
        cursor = event.id
    assert seen == ["one", "two"]
    assert cursor is not None
    write(topic, [b"three"], partition=1)
    with browser.events(f"topics/{topic}/records/tail", last_id=cursor) as events:
        found = next(event for event in events if event.name == "rows" and event.data["rows"])
        assert values(found.data["rows"]) == ["three"]


def test_a_tail_is_filtered_and_counts_what_it_leaves_out(
    browser: Browser, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic()
    write(topic, [b'{"id": %d}' % number for number in range(2000)])
    for query in ({"where": "(value->>'$.id')::INT % 1000 = 7"}, {"text": "007}"}):
        with browser.events(f"topics/{topic}/records/tail", **{"from": "earliest"}, **query) as events:
            shown = skipped = filtered = 0
            for event in events:
                shown += len(event.data["rows"])
                skipped += event.data["skipped"]
                filtered += event.data["filtered"]
                if event.data["read"] == 2000:
                    break
        assert shown + skipped + filtered == 2000
        assert shown == (2 if "where" in query else 1)


def test_a_search_reports_its_progress(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=2)
    for index in range(2):
        write(topic, [b"value %d" % number for number in range(1000)], partition=index)
    with browser.events(f"topics/{topic}/records/search", text="value 99") as events:
        found = list(events)
    assert found[-1].name == "done"
    assert found[-1].data["ended"] == "end"
    assert found[-1].data["scanned"] == 2000
    rows = [row for event in found if event.name == "rows" for row in event.data["rows"]]
    assert len(rows) == found[-1].data["found"] == 2 * 11


def test_a_search_ends_at_its_count_and_can_be_continued(browser: Browser, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic()
    write(topic, [b"value %d" % number for number in range(100)])
    with browser.events(f"topics/{topic}/records/search", text="value", count=30) as events:
        done = list(events)[-1]
    assert (done.data["ended"], done.data["found"], done.data["next"]) == ("count", 30, "0:30")
    with browser.events(f"topics/{topic}/records/search", text="value", count=500, after=done.data["next"]) as events:
        assert list(events)[-1].data["found"] == 70


@pytest.mark.parametrize(
    "where",
    ["nothing = 1", "value = ", "1); DROP TABLE x; --", "true) UNION SELECT (1", "read_text('/etc/passwd') = ''"],
)
def test_a_bad_condition_is_rejected(browser: Browser, make_topic: MakeTopic, write: Write, where: str) -> None:
    topic = make_topic()
    write(topic, [b"x"])
    answer = browser.get(f"/api/c/local/topics/{topic}/records", where=where)
    assert (answer.status, answer.code) == (400, "INVALID_QUERY")
    with browser.events(f"topics/{topic}/records/tail", where=where) as events:
        assert next(events).name == "failed"


def test_a_masked_field_is_hidden_everywhere(browser: Browser, admin: AdminClient, write: Write) -> None:
    if MASKED not in admin.list_topics(timeout=60).topics:
        admin.create_topics([NewTopic(MASKED, 1, 1)])[MASKED].result(60)
        eventually(lambda: MASKED in admin.list_topics(timeout=60).topics)
    write(MASKED, [b'{"id": 1, "card": "4111"}'])
    path = f"topics/{MASKED}/records"
    answers = [
        browser.get(f"/api/c/local/{path}", view="columns"),
        browser.get(f"/api/c/local/{path}", order="desc"),
        browser.get(f"/api/c/local/{path}", where="value IS NOT NULL"),
        browser.get(f"/api/c/local/{path}/0/0"),
        browser.get(f"/api/c/local/{path}/0/0/value"),
        browser.get(f"/api/c/local/{path}/download"),
        browser.post("/api/c/local/sql", {"sql": f"SELECT value, value_bytes FROM topic('{MASKED}')"}),
    ]
    for answer in answers:
        assert answer.status == 200
        assert b"4111" not in answer.body and b"***" in answer.body
    # A condition sees what is shown, so it cannot be used to guess.
    for query in ({"text": "4111"}, {"where": "value LIKE '%4111%'"}):
        assert browser.read(path, **query)["rows"] == []
        with browser.events(f"{path}/search", **query) as events:
            assert list(events)[-1].data["found"] == 0


def test_there_is_a_limit_of_open_streams(browser: Browser, make_topic: MakeTopic) -> None:
    topic = make_topic()
    opened = [browser.events(f"topics/{topic}/records/tail") for _ in range(STREAMS_MAX)]
    for stream in opened:
        next(stream.__enter__())
    try:
        answer = browser.get(f"/api/c/local/topics/{topic}/records/tail")
        assert (answer.status, answer.code) == (429, "TOO_MANY_STREAMS")
        assert browser.get("/api/c/local/topics").status == 200
    finally:
        for stream in opened:
            stream.__exit__(None, None, None)

    def is_free() -> bool:
        try:
            with browser.events(f"topics/{topic}/records/tail"):
                return True
        except AssertionError:
            return False

    eventually(is_free, what="a closed stream makes room")


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"partition": "x"},
        {"partition": "99"},
        {"count": "0"},
        {"count": "100000"},
        {"after": "0:x"},
        {"order": "desc", "from": "1"},
        {"before": "0:1"},
        {"isolation": "none"},
    ],
)
def test_a_bad_parameter_is_rejected(browser: Browser, make_topic: MakeTopic, query: dict[str, str]) -> None:
    answer = browser.get(f"/api/c/local/topics/{make_topic()}/records", **query)
    assert answer.status == 400
    assert answer.json["error"]["message"]


def test_an_unknown_topic_is_not_found_and_not_created(browser: Browser, admin: AdminClient) -> None:
    name = f"missing-{time.time_ns()}"
    for path in (f"topics/{name}", f"topics/{name}/records", f"topics/{name}/records/0/0", f"topics/{name}/settings"):
        assert browser.get(f"/api/c/local/{path}").status == 404
    with browser.events(f"topics/{name}/records/tail") as events:
        assert next(events).name == "failed"
    assert name not in admin.list_topics(timeout=60).topics
