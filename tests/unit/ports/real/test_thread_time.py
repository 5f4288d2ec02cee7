"""CPU time of the loop's thread: read rarely, and never underestimated."""

import pytest

from penstock.ports.real import thread_time
from penstock.ports.real.thread_time import MARK_NS, ThreadTime


class Machine:
    """A thread with an elapsed time and a CPU time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.elapsed = 10 * MARK_NS
        self.cpu = 5 * MARK_NS
        self.reads = 0
        monkeypatch.setattr(thread_time, "monotonic_ns", lambda: self.elapsed)
        monkeypatch.setattr(thread_time, "thread_time_ns", self._read)

    def _read(self) -> int:
        self.reads += 1
        return self.cpu

    def run(self, elapsed: int, cpu: int) -> None:
        self.elapsed += elapsed
        self.cpu += cpu


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_time_without_a_processor_is_not_counted(machine: Machine) -> None:
    time = ThreadTime()
    time.mark(machine.elapsed)
    machine.run(elapsed=30 * MARK_NS, cpu=4 * MARK_NS)
    assert time.used(30 * MARK_NS) == 4 * MARK_NS


def test_short_work_before_is_counted_rather_than_any_left_out(machine: Machine) -> None:
    time = ThreadTime()
    time.mark(machine.elapsed)
    machine.run(elapsed=MARK_NS // 2, cpu=MARK_NS // 2)
    time.mark(machine.elapsed)
    assert machine.reads == 1, "so soon it is not read again"
    machine.run(elapsed=30 * MARK_NS, cpu=4 * MARK_NS)
    assert time.used(30 * MARK_NS) == 4.5 * MARK_NS


def test_it_is_never_more_than_the_elapsed_time(machine: Machine) -> None:
    time = ThreadTime()
    time.mark(machine.elapsed)
    machine.run(elapsed=MARK_NS // 2, cpu=MARK_NS // 2)
    machine.run(elapsed=3 * MARK_NS, cpu=3 * MARK_NS)
    assert time.used(3 * MARK_NS) == 3 * MARK_NS


def test_long_work_is_not_counted_twice(machine: Machine) -> None:
    time = ThreadTime()
    time.mark(machine.elapsed)
    machine.run(elapsed=8 * MARK_NS, cpu=8 * MARK_NS)
    time.used(8 * MARK_NS)
    machine.run(elapsed=9 * MARK_NS, cpu=2 * MARK_NS)
    assert time.used(9 * MARK_NS) == 2 * MARK_NS
