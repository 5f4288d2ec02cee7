"""Producing records."""

import base64
import binascii
import json
import shlex
from typing import Any, Final

from penstock.actions.plurals import count_of
from penstock.actions.record_format import LineRecord, render_json_line
from penstock.actions.topic_writer import TopicWriter
from penstock_console.errors import bad_request
from penstock_console.jobs import Job
from penstock_console.lookup import find_topic
from penstock_console.plans import Change, Context, Outcome, Plan, Shell
from penstock_console.record_view import ROW_TEXT_MAX, field_view

COPIES_MAX: Final = 1000
SIZE_MAX: Final = 40 * 1024 * 1024
COMMAND_SIZE_MAX: Final = 2000
HEADERS_MAX: Final = 1000


def plan_produce(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    topic = find_topic(access, arguments.text("topic"))
    partition = arguments.optional_integer("partition", most=len(topic.partitions) - 1)
    copies = arguments.optional_integer("copies", least=1, most=COPIES_MAX) or 1
    record = LineRecord(
        key=content("key", arguments.value("key")),
        value=content("value", arguments.value("value")),
        headers=_headers(arguments.items("headers")),
        partition=partition,
    )
    size = len(record.key or b"") + len(record.value or b"")
    if size * copies > SIZE_MAX:
        raise bad_request(
            f"Too large: {count_of(copies, 'record')} of {size} bytes. The limit is {SIZE_MAX // (1024 * 1024)} MiB."
        )

    def execute(job: Job) -> Outcome:
        with TopicWriter(access.connection, topic.name, codec="none", acks="all") as writer:
            for _ in range(copies):
                writer.write(record)
        return Outcome(f"Wrote {count_of(copies, 'record')} to {topic.name}.")

    row = {
        "partition": partition if partition is not None else "by key" if record.key is not None else "any",
        "key": field_view(record.key, ROW_TEXT_MAX)["text"],
        "value": field_view(record.value, ROW_TEXT_MAX)["text"],
        "headers": ", ".join(name for name, _ in record.headers)[:ROW_TEXT_MAX],
        "bytes": size,
        "copies": copies,
    }
    return Plan(
        title=f"Produce to topic {topic.name}",
        command=_command(topic.name, record, copies),
        columns=list(row),
        rows=[row],
        execute=execute,
        warnings=["The value is null, which deletes the key in a compacted topic."] if record.value is None else [],
    )


def content(name: str, given: Any) -> bytes | None:
    """Return the bytes of a content: text, null or {"base64": ...}."""
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    if isinstance(given, dict) and isinstance(given.get("base64"), str) and len(given) == 1:
        try:
            return base64.b64decode(given["base64"], validate=True)
        except binascii.Error:
            raise bad_request(f"Invalid base64 in '{name}'.") from None
    raise bad_request(f'Invalid argument \'{name}\': expected text, null or {{"base64": "..."}}.')


def _headers(given: list[Any]) -> list[tuple[str, bytes | None]]:
    if len(given) > HEADERS_MAX:
        raise bad_request(f"A record has at most {HEADERS_MAX} headers.")
    found = []
    for header in given:
        if not isinstance(header, list) or len(header) != 2 or not isinstance(header[0], str):
            raise bad_request('Invalid argument \'headers\': expected [["name", "value"], ...].')
        found.append((header[0], content("headers", header[1])))
    return found


def _command(topic: str, record: LineRecord, copies: int) -> list[str]:
    fields = json.loads(render_json_line(record))
    wanted = {name: value for name, value in fields.items() if name in ("key", "headers") and value}
    if record.partition is not None:
        wanted["partition"] = record.partition
    line = json.dumps({"value": fields["value"], **wanted}, ensure_ascii=False)
    produce = ["penstock", "produce", topic, "--format", "json"]
    if len(line) > COMMAND_SIZE_MAX:
        return [*produce, "--file", "record.json"]
    printed = f"printf '%s\\n' {shlex.quote(line)}"
    return [Shell(printed if copies == 1 else f"for i in $(seq {copies}); do {printed}; done"), Shell("|"), *produce]


CHANGES = (
    Change(
        action="records.produce",
        doc="Write records.",
        arguments=("topic", "partition", "key", "value", "headers", "copies"),
        plan=plan_produce,
    ),
)
