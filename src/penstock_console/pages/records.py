"""Records of a topic: pages, one record, downloads, search and live tail."""

import csv
import io
import json
import shlex
import time
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.actions.positions import Latest, parse_position
from penstock.actions.record_format import LineRecord, render_json_line, render_timestamp
from penstock.sqlview import isolated
from penstock_console.endpoints import Call, Endpoint
from penstock_console.errors import bad_request, not_found
from penstock_console.log_reader import (
    Budget,
    Log,
    Page,
    age,
    open_log,
    parse_cursor,
    parse_partitions,
    read_backward,
    read_forward,
    read_range,
    render_cursor,
    start_of,
)
from penstock_console.parameters import Parameter, integer
from penstock_console.record_view import RECORD_TEXT_MAX, all_formats, record_row
from penstock_console.scan import Scan, Selection, elapsed_ms
from penstock_console.stream import Events, event_stream
from penstock_console.tail import Tail, TailOptions

COUNT_MAX: Final = 500
DOWNLOAD_MAX: Final = 100_000
DOWNLOAD_S: Final = 120.0
DOWNLOAD_SIZE_MAX: Final = 1024 * 1024 * 1024
SEARCH_S: Final = 600.0
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet would compute a cell that begins with one of these."""

_SELECTION: Final = (
    Parameter(name="partition", default="", doc="Partitions, separated by commas; all by default."),
    Parameter(name="text", default="", doc="Only records with this text in the key or the value."),
    Parameter(name="key", default="", doc="Only records with this key."),
    Parameter(name="where", default="", doc="Only records that fulfil this SQL condition."),
    Parameter(
        name="isolation",
        default="read_committed",
        choices=("read_committed", "read_uncommitted"),
        doc="Whether records of open and aborted transactions are returned.",
    ),
    Parameter(name="view", default="rows", choices=("rows", "columns"), doc="Whether fields of JSON are cells."),
)
_FROM: Final = Parameter(name="from", default="", doc="Position: earliest, latest, 42, -10, 5m, or a time.")
_ORDERED: Final = (
    _FROM,
    Parameter(name="order", default="asc", choices=("asc", "desc"), doc="Oldest or newest records first."),
    Parameter(name="after", default="", doc="Cursor to continue at, with order=asc."),
    Parameter(name="before", default="", doc="Cursor to continue before, with order=desc."),
)


def _selection(call: Call) -> Selection:
    return Selection(call["text"], call["key"], call["where"])


def _open(call: Call) -> Log:
    return open_log(call.access, call["topic"], parse_partitions(call["partition"]), call["isolation"])


def browse(call: Call) -> dict[str, Any]:
    """Return a page of records."""
    budget = Budget()
    log = _open(call)
    page = _page(call, log, call["count"], budget)
    with_cells = call["view"] == "columns"
    rows = [record_row(record, with_cells=with_cells) for record in page.records]
    # A search may follow, and loading DuckDB takes longer than most searches.
    isolated.prepare()
    return {
        "topic": log.topic,
        "rows": rows,
        "columns": list(dict.fromkeys(name for row in rows for name in row["cells"])) if with_cells else None,
        "next": None if page.ended == "end" else render_cursor(page.cursor),
        "ended": page.ended,
        "scanned": budget.scanned,
        "scanned_bytes": budget.scanned_bytes,
        "limits": {
            str(index): {"earliest": earliest, "latest": log.latest[index]} for index, earliest in log.earliest.items()
        },
        "command": _command(call),
    }


def _page(call: Call, log: Log, count: int, budget: Budget) -> Page:
    is_newest_first = call["order"] == "desc"
    if is_newest_first and (call["from"] or call["after"]):
        raise bad_request("order=desc begins at the end or at 'before': it accepts neither 'from' nor 'after'.")
    if not is_newest_first and call["before"]:
        raise bad_request("'before' needs order=desc.")
    selection = _selection(call)
    if is_newest_first:
        befores = {**log.latest, **(parse_cursor("before", call["before"]) if call["before"] else {})}
        if selection.is_empty:
            return read_backward(log, befores, count, budget)
        return _select(Scan(call.access, log, selection, call["isolation"]), log, befores, count, budget, backward=True)
    starts = _starts(call, log)
    if selection.is_empty:
        return read_forward(log, starts, count, budget)
    return _select(Scan(call.access, log, selection, call["isolation"]), log, starts, count, budget)


def _starts(call: Call, log: Log) -> dict[int, int]:
    if call["after"]:
        return {**log.latest, **parse_cursor("after", call["after"])}
    return start_of(log, parse_position(call["from"] or "earliest", now_ms=int(time.time() * 1000)))


def _select(
    scan: Scan, log: Log, cursor: dict[int, int], count: int, budget: Budget, *, backward: bool = False
) -> Page:
    found: list[LineRecord] = []
    windows = (scan.backward if backward else scan.forward)(cursor, count)
    limit = None
    for window in windows:
        found += window.records
        cursor = window.cursor
        budget.scanned += window.scanned
        budget.scanned_bytes += sum(len(record.value or b"") for record in window.records)
        limit = budget.limit()
        if limit:
            break
    edge = log.earliest if backward else log.latest
    is_at_end = all(at <= edge[index] if backward else at >= edge[index] for index, at in cursor.items())
    found.sort(key=age, reverse=backward)
    return Page(found, cursor, "end" if is_at_end else limit or "count")


def _command(call: Call) -> str:
    """Return the command that prints about the same records."""
    words = ["penstock", "consume", call["topic"]]
    if call["order"] == "desc":
        words += ["--from", f"-{call['count']}"]
    elif call["from"]:
        words += ["--from", call["from"]]
    for index in parse_partitions(call["partition"]) or ():
        words += ["--partition", str(index)]
    condition = _selection(call)._replace(where="").condition()
    if call["where"]:
        condition = f"{condition} AND ({call['where']})" if condition else call["where"]
    if condition:
        words += ["--where", condition]
    if call["isolation"] != "read_committed":
        words += ["--isolation", call["isolation"]]
    words += ["--count", str(call["count"]), "--bootstrap", call.access.connection.bootstrap]
    return shlex.join(words)


# -- one record ------------------------------------------------------------------------------


def _find(call: Call) -> tuple[Log, LineRecord]:
    partition, offset = integer("partition", call["partition"], most=2**31 - 1), integer("offset", call["offset"])
    log = open_log(call.access, call["topic"], [partition], "read_uncommitted")
    earliest, latest = log.earliest[partition], log.latest[partition]
    if not earliest <= offset < latest:
        raise not_found(
            f"{log.topic}-{partition} has no offset {offset}: the log holds offsets {earliest} to {latest - 1}.",
            next=None,
        )
    record = next(read_range(log, partition, offset, latest), None)
    if record is None or record.offset != offset:
        following = record.offset if record is not None else None
        raise not_found(
            f"Offset {offset} of {log.topic}-{partition} holds no record: it was compacted or is a transaction marker.",
            next=following,
        )
    return log, record


def show_record(call: Call) -> dict[str, Any]:
    log, record = _find(call)
    assert record.partition is not None and record.offset is not None
    earliest, latest = log.earliest[record.partition], log.latest[record.partition]
    words = ["penstock", "consume", log.topic, "--from", str(record.offset), "--partition", str(record.partition)]
    words += ["--count", "1", "--format", "json", "--bootstrap", call.access.connection.bootstrap]
    return {
        "topic": log.topic,
        "row": record_row(record, with_cells=True, text_max=RECORD_TEXT_MAX),
        "formats": all_formats(record.value),
        "previous": record.offset - 1 if record.offset > earliest else None,
        "next": record.offset + 1 if record.offset + 1 < latest else None,
        "limits": {"earliest": earliest, "latest": latest},
        "command": shlex.join(words),
    }


async def download_value(call: Call, request: Request) -> Response:
    return await _download_field(call, "value")


async def download_key(call: Call, request: Request) -> Response:
    return await _download_field(call, "key")


async def _download_field(call: Call, name: str) -> Response:
    async with call.console.limits.read():
        _, record = await call.console.run(lambda: _find(call))
    data = getattr(record, name)
    file = f"{call['topic']}-{record.partition}-{record.offset}.{name}"
    return Response(data or b"", media_type="application/octet-stream", headers=_attachment(file))


def _attachment(file: str) -> dict[str, str]:
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in file)
    return {"content-disposition": f'attachment; filename="{safe}"'}


# -- downloads -------------------------------------------------------------------------------


async def download(call: Call, request: Request) -> Response:
    """Stream the records as a file. The first page is read before the response begins, so that errors have a status."""
    budget = Budget(size=DOWNLOAD_SIZE_MAX, deadline=time.monotonic() + DOWNLOAD_S)
    async with call.console.limits.read():
        log = await call.console.run(lambda: _open(call))
        page = await call.console.run(lambda: _page(call, log, min(call["count"], COUNT_MAX), budget))
    pieces = _pieces(call, log, page, budget)
    kind = "text/csv" if call["format"] == "csv" else "application/x-ndjson"
    file = f"{call['topic']}.{'csv' if call['format'] == 'csv' else 'jsonl'}"
    return StreamingResponse(pieces, media_type=kind, headers=_attachment(file))


def _pieces(call: Call, log: Log, page: Page, budget: Budget) -> Iterator[bytes]:
    """Yield the file in pieces. Starlette runs this in threads."""
    is_csv = call["format"] == "csv"
    if is_csv:
        yield _csv_line(["partition", "offset", "timestamp", "key", "value", "headers"])
    left = call["count"]
    name = "before" if call["order"] == "desc" else "after"
    while True:
        yield b"".join(map(_csv_record if is_csv else render_json_line, page.records[:left]))
        left -= len(page.records)
        if page.ended != "count" or left <= 0:
            return
        following = Call(
            call.access,
            call.console,
            call.path,
            {**call.query, "from": "", "after": "", "before": "", name: render_cursor(page.cursor)},
        )
        page = _page(following, log, min(left, COUNT_MAX), budget)


def _csv_record(record: LineRecord) -> bytes:
    headers = json.loads(render_json_line(record))["headers"]
    return _csv_line(
        [
            str(record.partition),
            str(record.offset),
            render_timestamp(record.timestamp_ms),
            _cell(record.key),
            _cell(record.value),
            _cell(json.dumps(headers, ensure_ascii=False).encode("utf-8", "replace") if headers else None),
        ]
    )


def _csv_line(cells: list[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL).writerow(cells)
    return line.getvalue().encode("utf-8", "replace")


def _cell(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return f"'{text}" if text.startswith(FORMULA) else text


# -- streams ---------------------------------------------------------------------------------


async def tail(call: Call, request: Request) -> Response:
    cursor = request.headers.get("last-event-id") or call["after"]
    position = parse_position(call["from"], now_ms=int(time.time() * 1000)) if call["from"] else Latest()
    options = TailOptions(
        call["topic"],
        parse_partitions(call["partition"]),
        position,
        parse_cursor("after", cursor) if cursor else {},
        _selection(call),
        call["isolation"],
        call["view"] == "columns",
    )
    has_child = bool(options.selection.where)
    return await event_stream(
        call.console, lambda events: Tail(call.access, options, events).run(), has_child=has_child
    )


async def search(call: Call, request: Request) -> Response:
    if _selection(call).is_empty:
        raise bad_request("A search needs 'text', 'key' or 'where'.")
    return await event_stream(call.console, lambda events: _search(call, events), has_child=True)


def _search(call: Call, events: Events) -> None:
    began = time.monotonic()
    log = _open(call)
    cursor = _starts(call, log)
    total = sum(max(0, end - max(cursor.get(index, end), log.earliest[index])) for index, end in log.latest.items())
    scan = Scan(call.access, log, _selection(call), call["isolation"])
    events.on_stop(scan.stop)
    scanned = found = 0
    ended = "end"
    with_cells = call["view"] == "columns"

    def progress() -> dict[str, Any]:
        return {"scanned": scanned, "total": total, "found": found, "elapsed_ms": elapsed_ms(began)}

    events.send("progress", progress())
    for window in scan.forward(cursor, call["count"]):
        scanned += window.scanned
        found += len(window.records)
        cursor = window.cursor
        if window.records:
            events.send("rows", {"rows": [record_row(record, with_cells=with_cells) for record in window.records]})
        events.send("progress", progress())
        if time.monotonic() - began > SEARCH_S:
            ended = "time"
            break
    else:
        ended = "count" if found >= call["count"] else "end"
    is_at_end = all(at >= log.latest[index] for index, at in cursor.items())
    events.send("done", {**progress(), "ended": ended, "next": None if is_at_end else render_cursor(cursor)})


_COUNT: Final = Parameter(name="count", default=50, least=1, most=COUNT_MAX, doc="How many records.")

ENDPOINTS = (
    Endpoint(
        path="topics/{topic}/records",
        doc="A page of records.",
        read=browse,
        parameters=(*_ORDERED, *_SELECTION, _COUNT),
        contents=True,
        is_slow=True,
    ),
    Endpoint(
        path="topics/{topic}/records/tail",
        doc="New records as Server-Sent Events.",
        serve=tail,
        parameters=(_FROM, Parameter(name="after", default="", doc="Cursor to continue at."), *_SELECTION),
        contents=True,
    ),
    Endpoint(
        path="topics/{topic}/records/search",
        doc="Matching records and the progress of the search as Server-Sent Events.",
        serve=search,
        parameters=(
            _FROM,
            Parameter(name="after", default="", doc="Cursor to continue at."),
            *_SELECTION,
            Parameter(name="count", default=COUNT_MAX, least=1, most=COUNT_MAX, doc="How many records at most."),
        ),
        contents=True,
    ),
    Endpoint(
        path="topics/{topic}/records/download",
        doc="Records as a file.",
        serve=download,
        parameters=(
            *_ORDERED,
            *_SELECTION,
            Parameter(name="format", default="json", choices=("json", "csv"), doc="JSON lines or CSV."),
            Parameter(name="count", default=10_000, least=1, most=DOWNLOAD_MAX, doc="How many records at most."),
        ),
        contents=True,
    ),
    Endpoint(
        path="topics/{topic}/records/{partition}/{offset}",
        doc="One record, in every format in which it can be displayed.",
        read=show_record,
        contents=True,
        is_slow=True,
    ),
    Endpoint(
        path="topics/{topic}/records/{partition}/{offset}/value",
        doc="The bytes of a value.",
        serve=download_value,
        contents=True,
    ),
    Endpoint(
        path="topics/{topic}/records/{partition}/{offset}/key",
        doc="The bytes of a key.",
        serve=download_key,
        contents=True,
    ),
)
