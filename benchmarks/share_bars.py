"""The targets of share groups, and whether the figures meet them."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.measures import Figures
from benchmarks.share_loads import QUEUE_IDEAL, STREAM_RATE, WORK_MS, WORKERS

Results = dict[tuple[str, str], Figures]
"""Figures by (load, target)."""

STREAM = f"produced to polled, {STREAM_RATE:,} records/s"
QUEUE = f"{WORKERS} consumers x {WORK_MS:g} ms, 1 record per poll"
QUEUE_JAVA = f"{QUEUE}, Java consumers"


@dataclass(frozen=True, slots=True)
class Required:
    """What a figure must reach, as a ratio to Kafka's, or as a part of an ideal."""

    figure: str
    limit: float
    higher_is_better: bool = True
    ideal: float | None = None

    @property
    def text(self) -> str:
        sign = ">=" if self.higher_is_better else "<="
        if self.ideal is not None:
            return f"{sign} {self.limit:.0%} of {self.ideal:,.0f}"
        return f"{sign} {self.limit:.1f}x"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of one target beside Kafka's; `ratio` and `is_met` are None where they cannot be judged."""

    load: str
    target: str
    required: Required
    found: float
    kafka: float | None
    ratio: float | None
    is_met: bool | None


WAITING_REQUIRED = (Required("records/s", 1.0), Required("CPU s/M", 0.8, higher_is_better=False))
STREAM_REQUIRED = (
    Required("p50 ms", 0.8, higher_is_better=False),
    Required("p99 ms", 1.0, higher_is_better=False),
)
QUEUE_REQUIRED = (Required("records/s", 0.8, ideal=QUEUE_IDEAL),)


def waiting_load(consumers: int) -> str:
    return "1 consumer, records that wait" if consumers == 1 else f"{consumers} consumers, records that wait"


def required_of(load: str) -> tuple[Required, ...]:
    special = {STREAM: STREAM_REQUIRED, QUEUE: QUEUE_REQUIRED, QUEUE_JAVA: QUEUE_REQUIRED}
    return special.get(load, WAITING_REQUIRED)


def better_figures(known: Figures | None, found: Figures, required: tuple[Required, ...]) -> Figures:
    """Return the best of each figure of two rounds; a figure without a target is that of the later round."""
    if known is None:
        return found
    best = dict(found)
    for each in required:
        choose = max if each.higher_is_better else min
        best[each.figure] = choose(known[each.figure], found[each.figure])
    return best


def compare(results: Results, *, peer: str) -> list[Row]:
    """Return a row for each figure of each target, except for the peer itself."""
    rows = []
    for (load, target), figures in results.items():
        if target == peer:
            continue
        for required in required_of(load):
            found = figures[required.figure]
            kafka = results.get((load, peer), {}).get(required.figure)
            ratio = found / kafka if kafka else None
            judged = ratio if required.ideal is None else found / required.ideal
            rows.append(Row(load, target, required, found, kafka, ratio, _meets(judged, required)))
    return rows


def _meets(judged: float | None, required: Required) -> bool | None:
    if judged is None:
        return None
    return judged >= required.limit if required.higher_is_better else judged <= required.limit
