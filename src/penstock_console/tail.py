"""The live tail of a topic: a consumer without a group, whose records are sent in a few frames per second."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.actions.librdkafka import action_error, client_config
from penstock.actions.masks import find_mask
from penstock.actions.positions import Position
from penstock.actions.record_format import LineRecord
from penstock.actions.topic_reader import line_record
from penstock.sqlview import isolated
from penstock_console.errors import ApiError, api_error
from penstock_console.log_reader import Offsets, open_log, render_cursor, start_of
from penstock_console.record_view import record_row
from penstock_console.scan import CHILD_WAIT_S, MEMORY_BYTES, Selection
from penstock_console.stream import Events, Stopped

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from penstock_console.clusters import ClusterAccess

FRAME_S: Final = 0.1
ROWS_MAX: Final = 500
PING_S: Final = 10.0
RETRY_S: Final = 2.0
FILTER_S: Final = 10.0
CONSUME_MAX: Final = 10_000
_PASSING: Final = (502, 504)


class TailOptions(NamedTuple):
    topic: str
    partitions: Sequence[int] | None
    position: Position
    after: Mapping[int, int]
    """A cursor to continue at; takes precedence over the position."""
    selection: Selection
    isolation: str
    with_cells: bool


class Tail:
    """One stream. `run` returns when the browser closes it."""

    def __init__(self, access: "ClusterAccess", options: TailOptions, events: Events) -> None:
        self._access = access
        self._options = options
        self._events = events
        self._cursor: Offsets = {}
        self._read = 0
        self._problem: ApiError | None = None
        self._sent_at = time.monotonic()

    def run(self) -> None:
        """Read until the browser closes the stream; connect again when the cluster was gone."""
        select = self._open_filter()
        while True:
            try:
                self._follow(select)
            except Stopped:
                raise
            except Exception as error:
                found = api_error(error)
                if found is None or found.status not in _PASSING:
                    raise
                self._report(found)
                if self._events.stopped.wait(RETRY_S):
                    raise Stopped from None

    def _follow(self, select: Callable[[list[LineRecord]], list[LineRecord]]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        options = self._options
        if not self._cursor:
            log = open_log(self._access, options.topic, options.partitions, options.isolation)
            starts = start_of(log, options.position)
            self._cursor = {
                index: min(max(options.after.get(index, start), log.earliest[index]), log.latest[index])
                for index, start in starts.items()
            }
        consumer: Any = Consumer(self._client_config())
        try:
            consumer.assign([TopicPartition(options.topic, index, at) for index, at in self._cursor.items()])
            # Tells the page that the stream works, and where it starts.
            self._send([], 0, 0)
            while True:
                self._frame(consumer, select)
        finally:
            consumer.close()

    def _frame(self, consumer: "Consumer", select: Callable[[list[LineRecord]], list[LineRecord]]) -> None:
        """Collect records for a moment and send them."""
        until = time.monotonic() + FRAME_S
        messages: list[Message] = []
        while (left := until - time.monotonic()) > 0 and len(messages) < CONSUME_MAX:
            messages += consumer.consume(ROWS_MAX, timeout=left)
        if self._events.stopped.is_set():
            raise Stopped
        if self._access.is_closed:
            raise ApiError(401, "LOGIN_REQUIRED", "The login has ended.", "Log in again.")
        if self._problem is not None:
            problem, self._problem = self._problem, None
            self._report(problem)
        messages = [message for message in messages if self._accept(message)]
        if not messages:
            if time.monotonic() - self._sent_at >= PING_S:
                self._events.send("ping", {})
                self._sent_at = time.monotonic()
            return
        self._read += len(messages)
        if self._options.selection.is_empty:
            # The newest rows are displayed; records that are not need no conversion.
            kept, matching = self._records(messages[-ROWS_MAX:]), len(messages)
        else:
            found = select(self._records(messages))
            kept, matching = found[-ROWS_MAX:], len(found)
        self._send(kept, matching - len(kept), len(messages) - matching)

    def _send(self, records: list[LineRecord], skipped: int, filtered: int) -> None:
        rows = [record_row(record, with_cells=self._options.with_cells) for record in records]
        data = {"rows": rows, "skipped": skipped, "filtered": filtered, "read": self._read}
        if self._options.with_cells:
            data["columns"] = list(dict.fromkeys(name for row in rows for name in row["cells"]))
        self._events.send("rows", data, id=render_cursor(self._cursor))
        self._sent_at = time.monotonic()

    def _accept(self, message: "Message") -> bool:
        error = message.error()
        if error is not None:
            raise action_error(error, about=self._options.topic)
        index, offset = message.partition(), message.offset()
        assert index is not None and offset is not None, "a message without an error has a position"
        self._cursor[index] = offset + 1
        return True

    def _records(self, messages: "Sequence[Message]") -> list[LineRecord]:
        mask = find_mask(self._access.masks, self._options.topic)
        records = [line_record(message, self._options.topic) for message in messages]
        return records if mask is None else [mask.hide_in(record) for record in records]

    def _open_filter(self) -> Callable[[list[LineRecord]], list[LineRecord]]:
        selection = self._options.selection
        if not selection.where:
            return lambda records: [record for record in records if selection.matches_plainly(record)]
        matching = isolated.open_filter(
            selection.condition(), timeout_s=FILTER_S, memory_bytes=MEMORY_BYTES, wait_s=CHILD_WAIT_S
        )

        def select(records: list[LineRecord]) -> list[LineRecord]:
            columns = [
                (
                    each.topic,
                    each.partition,
                    each.offset,
                    each.timestamp_ms,
                    each.timestamp_type,
                    each.key,
                    each.value,
                    each.headers,
                )
                for each in records
            ]
            return [records[index] for index in matching(columns)]

        return select

    def _report(self, error: ApiError) -> None:
        self._events.send("problem", error.content())
        self._sent_at = time.monotonic()

    def _client_config(self) -> dict[str, Any]:
        def note(error: Any) -> None:
            if error.name() == "_ALL_BROKERS_DOWN":
                self._problem = api_error(action_error(error)) if self._problem is None else self._problem

        return client_config(
            self._access.connection,
            **{
                "group.id": "penstock-console",
                "client.id": "penstock-console",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": self._options.isolation,
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 16 * 1024,
                "error_cb": note,
            },
        )
