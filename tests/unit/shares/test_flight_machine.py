"""A state machine of random operations on a `Flight`, compared with a model of single offsets.

The model knows nothing of ranges: for each offset it remembers the holder, the deliveries and the outcome.
A share coordinator is played by `combine`, so that a leader change at any moment can be compared too.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from penstock.shares.acquiring import AcquireLimits, Acquisition
from penstock.shares.combine import combine
from penstock.shares.errors import InvalidRecordState
from penstock.shares.flight import Flight
from penstock.shares.flight_ranges import StateWrite
from penstock.shares.settings import ShareSettings
from penstock.shares.states import AcknowledgementBatch, LogBatch, StateRange
from tests.unit.shares.flights import ACCEPT, GAP, REJECT, RELEASE, RENEW

LOCK_MS = 100
MEMBERS = st.sampled_from(["a", "b", "c"])


class ModelRecord:
    def __init__(self) -> None:
        self.count = 0
        self.holder: str | None = None
        self.deadline = 0
        self.available_at = 0
        self.is_final = False
        self.pending: StateWrite | None = None
        self.outcome = -1


class FlightMachine(RuleBasedStateMachine):
    writes = Bundle("writes")

    @initialize(
        limit=st.integers(2, 6),
        locks=st.integers(3, 20),
        delay=st.sampled_from([0, 0, 30]),
        unfinished=st.booleans(),
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=20),
    )
    def begin(self, limit: int, locks: int, delay: int, unfinished: bool, sizes: list[int]) -> None:
        self.now = 0
        self.settings = ShareSettings(
            lock_duration_ms=LOCK_MS,
            delivery_count_limit=limit,
            record_locks_max=locks,
            retry_delay_ms=delay,
            retry_delay_factor=2.0,
            counts_unfinished=unfinished,
        )
        self.log: list[LogBatch] = []
        for size in sizes:
            first = self.log[-1].last + 1 if self.log else 0
            self.log.append(LogBatch(first, first + size - 1))
        self.batch_size_max = max(sizes)
        self.flight = Flight(0, settings=self.settings)
        self.model = {offset: ModelRecord() for batch in self.log for offset in range(batch.first, batch.last + 1)}
        self.written_start = -1
        self.written: tuple[StateRange, ...] = ()
        self.pending: list[StateWrite] = []

    # -- the coordinator -----------------------------------------------------------------------

    def _store(self, write: StateWrite) -> None:
        self.written_start = max(self.written_start, write.start_offset)
        self.written = combine(self.written, write.ranges, start_offset=self.written_start)

    # -- fetching --------------------------------------------------------------------------------

    @rule(member=MEMBERS, most=st.integers(1, 12), strict=st.booleans(), read_count=st.integers(1, 5))
    def acquire(self, member: str, most: int, strict: bool, read_count: int) -> None:
        offset = self.flight.next_fetch_offset(self.now)
        available = [
            at for at, each in self.model.items()
            if at < self.flight.end and not each.is_final and each.holder is None and each.available_at <= self.now
        ]  # fmt: skip
        if available:
            assert offset == min(available), "the first record that is available is fetched first"
        if offset is None:
            return
        batches = [batch for batch in self.log if batch.last >= offset][:read_count]
        acquisition = Acquisition(self.flight, member, AcquireLimits(records_max=most, is_strict=strict), self.now)
        acquisition.take(offset, batches)
        if batches:
            assert acquisition.count, "a fetch offset always yields a record"
        if strict:
            assert acquisition.count <= most
        for first, last, count in acquisition.acquired:
            for at in range(first, last + 1):
                each = self.model[at]
                assert not each.is_final, "a finished record is never delivered again"
                assert each.holder is None and each.available_at <= self.now, "a record has one holder"
                each.count += 1
                assert each.count == count <= self.settings.delivery_count_limit
                each.holder, each.deadline = member, self.now + LOCK_MS

    # -- acknowledging ---------------------------------------------------------------------------

    @rule(
        target=writes,
        member=MEMBERS,
        kinds=st.lists(st.sampled_from([ACCEPT, RELEASE, REJECT, GAP, RENEW]), min_size=1, max_size=5),
        skip=st.integers(0, 10),
    )
    def acknowledge(self, member: str, kinds: list[int], skip: int) -> list[StateWrite]:
        held = [at for at, each in self.model.items() if each.holder == member and each.pending is None]
        held = held[skip : skip + len(kinds)]
        if not held:
            return []
        batches = [AcknowledgementBatch(at, at, (kind,)) for at, kind in zip(held, kinds, strict=False)]
        write = self.flight.acknowledge(member, batches, self.now)
        written = set()
        for at, kind in zip(held, kinds, strict=False):
            each = self.model[at]
            if kind == RENEW:
                each.deadline = self.now + LOCK_MS
            else:
                each.pending, each.outcome = write, kind
                written.add(at)
        assert (write is not None) == bool(written)
        if write is None:
            return []
        self.pending.append(write)
        return [write]

    @rule(member=MEMBERS, first=st.integers(0, 40), size=st.integers(1, 5))
    def acknowledge_what_is_not_held(self, member: str, first: int, size: int) -> None:
        last = min(first + size, self.flight.end) - 1
        offsets = [at for at in range(first, last + 1) if at >= self.flight.start]
        if not offsets or all(self.model[at].holder == member and self.model[at].pending is None for at in offsets):
            return
        before = [(r.first, r.last, r.state, r.member, r.pending) for r in self.flight.ranges]
        try:
            self.flight.acknowledge(member, [AcknowledgementBatch(first, last, (ACCEPT,))], self.now)
            raise AssertionError("acknowledged a record that the member does not hold")
        except InvalidRecordState:
            pass
        assert [(r.first, r.last, r.state, r.member, r.pending) for r in self.flight.ranges] == before

    @rule(found=consumes(writes))
    def write_succeeds(self, found: list[StateWrite]) -> None:
        for write in found:
            if write not in self.pending:
                continue
            self.pending.remove(write)
            self._store(write)
            self.flight.commit(write)
            for each in self.model.values():
                if each.pending is write:
                    each.pending = None
                    self._end(each, each.outcome)

    @rule(found=consumes(writes), reached=st.booleans())
    def write_fails(self, found: list[StateWrite], reached: bool) -> None:
        for write in found:
            if write not in self.pending:
                continue
            self.pending.remove(write)
            if reached:
                self._store(write)  # only the response was lost
            self.flight.rollback(write)
            for each in self.model.values():
                if each.pending is write:
                    each.pending, each.outcome = None, -1

    def _end(self, each: ModelRecord, kind: int) -> None:
        each.holder = None
        if kind == RELEASE and each.count < self.settings.delivery_count_limit:
            delay = self.settings.retry_delay(each.count)
            each.available_at = self.now_of_release(each, delay)
        else:
            each.is_final = True

    def now_of_release(self, each: ModelRecord, delay: int) -> int:
        """Read when the delay ends from the flight: it began when the release was requested."""
        if not delay:
            return 0
        offset = next(at for at, other in self.model.items() if other is each)
        found = self.flight.ranges[self.flight.index_of(offset)]
        assert found.available_at <= self.now + delay
        return int(found.available_at)

    # -- time, sessions, leaders -----------------------------------------------------------------

    def _release(self, offsets: list[int]) -> None:
        for at in offsets:
            each = self.model[at]
            each.holder, each.available_at, each.outcome = None, 0, -1
            each.is_final = each.count >= self.settings.delivery_count_limit

    def _written_now(self, write: StateWrite | None, succeeds: bool) -> None:
        if write is None:
            return
        if succeeds:
            self._store(write)
            self.flight.commit(write)
        else:
            self.flight.rollback(write)

    @rule(step=st.integers(1, 150), succeeds=st.booleans())
    def time_passes(self, step: int, succeeds: bool) -> None:
        self.now += step
        due = [
            at for at, each in self.model.items()
            if each.holder is not None and each.pending is None and each.deadline <= self.now
        ]  # fmt: skip
        event = self.flight.next_event()
        assert not due or event <= self.now, "a lock that has expired is an event"
        write = self.flight.expire(self.now)
        assert (write is not None) == bool(due)
        self._release(due)
        self._written_now(write, succeeds)

    @rule(member=MEMBERS, succeeds=st.booleans())
    def session_closes(self, member: str, succeeds: bool) -> None:
        held = [at for at, each in self.model.items() if each.holder == member]
        for at in held:
            self.model[at].deadline = -1
        write = self.flight.release(member)
        self._release([at for at in held if self.model[at].pending is None])
        self._written_now(write, succeeds)

    @rule()
    def leader_changes(self) -> None:
        """Load the written state: what was answered is final, and nothing is lost."""
        start = max(self.written_start, 0)
        self.flight = Flight.load(start, self.written, settings=self.settings)
        self.pending.clear()
        finished = {at for first, last, state, _ in self.written for at in range(first, last + 1) if state in (2, 4)}
        counts = {at: count for first, last, _, count in self.written for at in range(first, last + 1)}
        for at, each in self.model.items():
            answered = each.is_final and each.outcome in (ACCEPT, REJECT, GAP)
            is_final = at < start or at in finished
            assert is_final or not answered, "an acknowledgement that was answered survives"
            each.is_final, each.holder, each.pending, each.available_at = is_final, None, None, 0
            each.count = counts.get(at, 0)
            assert each.count <= self.settings.delivery_count_limit

    @rule(to=st.integers(0, 60))
    def log_start_moves(self, to: int) -> None:
        to = min(to, self.log[-1].last + 1)
        self.flight.trim(to)
        for at, each in self.model.items():
            if at < to:
                each.is_final, each.holder, each.pending, each.outcome = True, None, None, -1

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def flight_and_model_agree(self) -> None:
        if not hasattr(self, "flight"):
            return
        self.flight.validate()
        unfinished = [at for at, each in self.model.items() if not each.is_final]
        assert self.flight.start <= min(unfinished, default=len(self.model)), "no unfinished record is passed"
        for each in self.flight.ranges:
            for at in range(each.first, each.last + 1):
                assert self.model[at].holder == each.member
                assert self.model[at].pending is each.pending
                assert self.model[at].is_final == (each.state in (2, 4))
                assert each.count == self.model[at].count
        limit = self.settings.record_locks_max
        unfinished_count = self.flight.end - self.flight.start - self.flight.finished
        assert unfinished_count < limit + self.batch_size_max, "the limit of locks plus one batch"

    @invariant()
    def written_state_never_passes_an_unfinished_record(self) -> None:
        if hasattr(self, "flight") and not self.pending:
            write = self.flight.unwritten()
            if write is not None:
                self._store(write)
                self.flight.commit(write)


FlightMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFlight = FlightMachine.TestCase
