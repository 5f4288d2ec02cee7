"""Connections that are closed when unread replies hold too much memory."""

from penstock.ports.real.unsent import UnsentBudget


class Reader:
    def __init__(self, size: int, *, since: float = 0.0) -> None:
        self.size = size
        self.since = since

    def unsent_in_memory(self) -> int:
        return self.size

    def stalled_s(self, now: float) -> float:
        return now - self.since


def test_the_connection_that_holds_most_for_the_longest_time_is_closed_first() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(100)
    early, small, late = Reader(40), Reader(5), Reader(90, since=9.0)
    assert unsent.hold(early, 0.0) == []
    assert unsent.hold(small, 0.0) == []
    assert unsent.hold(late, 10.0) == [early]
    unsent.let_go(early)
    assert unsent.held == 95


def test_a_slow_reader_that_holds_little_stays_while_others_stall() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(1000)
    honest = Reader(10)
    unsent.hold(honest, 0.0)
    victims = [victim for _ in range(20) for victim in unsent.hold(Reader(300, since=9.0), 10.0)]
    assert victims
    assert honest not in victims


def test_replies_that_were_read_meanwhile_no_longer_count() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(100)
    first = Reader(90)
    unsent.hold(first, 0.0)
    first.size = 10
    assert unsent.hold(Reader(80), 1.0) == []
    assert unsent.held == 90


def test_a_connection_whose_replies_were_read_is_forgotten() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(100)
    first = Reader(90)
    unsent.hold(first, 0.0)
    unsent.let_go(first)
    unsent.let_go(first)
    assert unsent.hold(Reader(90), 0.0) == []
    assert unsent.held == 90


def test_a_connection_that_holds_too_much_alone_is_closed() -> None:
    alone = Reader(101)
    assert UnsentBudget[Reader](100).hold(alone, 0.0) == [alone]
