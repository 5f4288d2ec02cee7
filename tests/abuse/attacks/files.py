"""Files that change while they are read: a node must report what it cannot read, and serve the rest."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.abuse import records, wire
from tests.abuse.attack import MB, Attack, Counts, Gate, Target
from tests.abuse.parallel import in_threads

FAMILY = "files"
DAMAGED, HEALTHY = "damaged", "healthy"
BATCHES, BATCH_SIZE = 12, 900_000
ANSWER_S_MAX = 5.0
GOOD = "0 none"
CLOSED_MAX = 2
"""Connections of a reader that may be closed until the damage is known."""


def _prepare(target: Target) -> None:
    wire.create_topics(target, [DAMAGED, HEALTHY], segment_bytes=str(4 * MB))
    random = Random(7)
    with wire.Client(target) as client:
        for _ in range(BATCHES):
            for topic in (DAMAGED, HEALTHY):
                error, _ = wire.produced(client.exchange(wire.produce([(topic, 0, records.plain(BATCH_SIZE, random))])))
                assert error == GOOD, error


def _segments(target: Target) -> list[Path]:
    return sorted((Path(target.data) / f"{DAMAGED}-0").glob("*.log"))


def _read(target: Target, gate: Gate, counts: Counter[str], offset: int) -> None:
    """Fetch from the damaged and the healthy partition together, and from the healthy one alone."""
    both = wire.fetch_many([(DAMAGED, 0, offset), (HEALTHY, 0, 0)], size_max=3_000_000)
    try:
        with wire.Client(target, timeout_s=ANSWER_S_MAX) as client:
            answer = wire.read_response("fetch", wire.FETCH_VERSION, client.exchange(both))
    except OSError as error:
        counts["closed" if not isinstance(error, TimeoutError) else "timeouts"] += 1
        # A client whose response was being sent when the damage was found cannot get an error.
        what = f"fetches over a damaged and a healthy partition get no response: {type(error).__name__}"
        gate.require(counts["closed"] <= CLOSED_MAX and not counts["timeouts"], what)
        return
    found = {row["topic"]: row["partitions"][0] for row in answer["responses"]}
    counts[f"damaged: {found[DAMAGED]['error_code']}"] += 1
    for topic, part in found.items():
        bad = [batch for batch in part["records"] or () if batch.get("crc_good") is False and batch["whole"]]
        gate.require(not bad, f"bytes that fail their checksum are served from {topic}")
    if found[DAMAGED]["error_code"] != GOOD:
        # The damaged partition may use up the limit of one response as long as it can be read.
        gate.require(bool(found[HEALTHY]["records"]), "the healthy partition in the same fetch is not served")


def _readers(target: Target, gate: Gate, offset: int) -> Counts:
    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            _read(target, gate, counts, offset)

    return in_threads(2, work, gate)


def _require_error(counts: Counts, gate: Gate) -> Counts:
    errors = sum(count for name, count in counts.items() if name.startswith("damaged:") and GOOD not in name)
    gate.require(errors > 0, f"no reader of the damaged partition received an error: {dict(counts)}")
    return counts


def _cut_live(target: Target, gate: Gate) -> Counts:
    """Truncate the active segment, and read acknowledged records after the truncation."""
    live = _segments(target)[-1]
    os.truncate(live, live.stat().st_size // 2 + 1)
    return _require_error(_readers(target, gate, BATCHES - 1), gate)


def _cut_closed(target: Target, gate: Gate) -> Counts:
    first = _segments(target)[0]
    os.truncate(first, 100_000)
    return _require_error(_readers(target, gate, 0), gate)


def _overwritten(target: Target, gate: Gate) -> Counts:
    """Overwrite the header of a batch in a closed segment with zeros."""
    first = _segments(target)[0]
    size = int.from_bytes(first.read_bytes()[8:12], "big") + 12
    with first.open("r+b") as file:
        file.seek(size)
        file.write(bytes(61))
    return _readers(target, gate, 0)


def _unreadable(position: int, target: Target, gate: Gate) -> Counts:
    """Make the partition's files unreadable from a position on during the attack."""
    target.trigger.write_text(f"{position}:/{DAMAGED}-0/")
    try:
        return _require_error(_readers(target, gate, 0), gate)
    finally:
        target.trigger.unlink()


def _attack(name: str, what: str, run: Callable[[Target, Gate], Counts], *, reads_may_fail: bool = False) -> Attack:
    return Attack(
        name=name, family=FAMILY, what=what, run=run, prepare=_prepare, log_may_complain=True,
        reads_may_fail=reads_may_fail,
    )  # fmt: skip


ATTACKS = (
    _attack("cut-live-segment", "the segment that is written is cut in half under its readers", _cut_live),
    _attack("cut-closed-segment", "a closed segment is cut under its readers", _cut_closed),
    _attack(
        "unreadable-segment", "every read of a partition fails with EIO", partial(_unreadable, 0), reads_may_fail=True
    ),
    _attack(
        "unsendable-segment",
        "reads fail with EIO in the middle of a batch, when the head of the answer has left",
        partial(_unreadable, BATCH_SIZE // 2),
        reads_may_fail=True,
    ),
    _attack("overwritten-segment", "zeros over the header of a batch under its readers", _overwritten),
)
