"""Appends that decode the records of a batch synchronously, for tests without an event loop."""

from typing import Any

from penstock.model.job import finish
from penstock.storage.log import Appended, Log
from penstock.storage.validate import Unprepared


def append_at_once(log: Log, records: memoryview, *, now_ms: int, **options: Any) -> Appended:
    try:
        return log.append(records, now_ms=now_ms, **options)
    except Unprepared:
        prepared = finish(log.prepare(records, now_ms))
        return log.append(records, now_ms=now_ms, prepared=prepared, **options)
