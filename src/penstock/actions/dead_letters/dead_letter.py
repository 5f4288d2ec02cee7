"""A dead letter: a record with the reason why a worker or a share group gave it up. Filters and rendering. No I/O."""

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from penstock.actions.dead_letters.share_letter import read_share_letter
from penstock.actions.record_format import LineRecord, render_json_line, render_timestamp
from penstock.worker.dead_letter import Death, read

COLUMNS = ["partition", "offset", "source", "failed", "attempts", "error", "message", "key"]


class DeadLetter(NamedTuple):
    """A record of a dead-letter topic. `death` is None if neither penstock.worker nor a share group wrote it.

    `record.headers` are the headers of the original record.
    """

    record: LineRecord
    death: Death | None


class Filter(NamedTuple):
    """Conditions on dead letters; None or empty means any."""

    error: str | None = None
    contains: str | None = None
    key: str | None = None
    offsets: Collection[int] = ()
    group: str | None = None

    @property
    def matches_all(self) -> bool:
        """Whether there is no condition."""
        return self == Filter()

    def matches(self, letter: DeadLetter) -> bool:
        record, death = letter
        if self.offsets and record.offset not in self.offsets:
            return False
        if self.group is not None and (death is None or death.group != self.group):
            return False
        if self.key is not None and record.key != self.key.encode():
            return False
        if self.error is not None and (death is None or not _is_error(death.error_class, self.error)):
            return False
        if self.contains is not None:
            text = self.contains.encode()
            message = death.error_message.encode() if death else b""
            return text in message or text in (record.value or b"")
        return True


def parse_dead_letter(record: LineRecord) -> DeadLetter:
    """Split the headers of a record into the original ones and the reason of its death."""
    found = read(record.headers) or read_share_letter(record)
    if found is None:
        return DeadLetter(record, None)
    own, death = found
    return DeadLetter(record._replace(headers=own), death)


def dead_letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return the row of a table."""
    record, death = letter
    row: dict[str, Any] = {"partition": record.partition, "offset": record.offset, "key": _text(record.key)}
    if death is not None:
        row |= {
            "source": f"{death.topic}-{death.partition}@{death.offset}",
            "failed": render_timestamp(death.last_failure_ms),
            "attempts": death.attempts,
            "error": death.error_class,
            "message": " ".join(death.error_message.split())[:200],
        }
    return row


def render_json(letter: DeadLetter) -> bytes:
    """Render a dead letter as one JSON object: the record as `render_json_line` does, and its death."""
    record, death = letter
    fields = json.loads(render_json_line(record))
    fields["death"] = {name: getattr(death, name) for name in Death.__slots__} if death is not None else None
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def render_text(letter: DeadLetter) -> str:
    """Render all fields of a dead letter as lines of text."""
    record, death = letter
    lines = [f"{record.topic}-{record.partition}@{record.offset}"]
    if death is not None:
        lines += [
            f"  from      {death.topic}-{death.partition}@{death.offset}, group {death.group}",
            f"  failed    {death.attempts} times, {render_timestamp(death.first_failure_ms)} "
            f"to {render_timestamp(death.last_failure_ms)}",
            f"  error     {death.error_class}: {death.error_message}",
        ]
    lines += [f"  key       {_text(record.key)}", f"  value     {_text(record.value)}"]
    lines += [f"  header    {name}={_text(value)}" for name, value in record.headers]
    if death is not None:
        lines += [f"  | {line}" for line in death.trace.rstrip().splitlines()]
    return "\n".join(lines)


def _is_error(name: str, wanted: str) -> bool:
    """Compare class names, with or without the module."""
    return name == wanted or name.rpartition(".")[2] == wanted


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
