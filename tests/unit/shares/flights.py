"""Short ways to drive a `Flight` in tests."""

from penstock.shares.acquiring import AcquireLimits, Acquisition
from penstock.shares.flight import Flight
from penstock.shares.flight_ranges import StateWrite
from penstock.shares.settings import ShareSettings
from penstock.shares.states import AcknowledgementBatch, AcquiredRange, LogBatch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def flight(start: int = 0, **settings: object) -> Flight:
    return Flight(start, settings=ShareSettings(**settings))  # type: ignore[arg-type]


def acquire(
    records: Flight,
    *batches: tuple[int, int] | LogBatch,
    member: str = "m",
    now: float = 0,
    most: int = 500,
    size: int = 0,
    strict: bool = False,
) -> list[AcquiredRange]:
    offset = records.next_fetch_offset(now)
    if offset is None:
        return []
    limits = AcquireLimits(records_max=most, batch_size=size, is_strict=strict)
    acquisition = Acquisition(records, member, limits, now)
    read = [LogBatch(*batch) for batch in batches if batch[1] >= offset]
    if read:
        acquisition.take(offset, read)
    records.validate()
    return acquisition.acquired


def acknowledge(
    records: Flight, first: int, last: int, *types: int, member: str = "m", now: float = 0
) -> StateWrite | None:
    write = records.acknowledge(member, [AcknowledgementBatch(first, last, types)], now)
    records.validate()
    return write


def accept(records: Flight, first: int, last: int, *, member: str = "m") -> None:
    done(records, acknowledge(records, first, last, ACCEPT, member=member))


def done(records: Flight, write: StateWrite | None) -> StateWrite:
    assert write is not None
    records.commit(write)
    records.validate()
    return write
