"""Which connections are closed when replies that nobody reads hold too much memory."""

from penstock.ports.real.unsent import UnsentBudget


class Reader:
    def __init__(self, size: int, *, since: float = 0.0) -> None:
        self.size = size
        self.since = since

    def unsent_in_memory(self) -> int:
        return self.size

    def stalled_s(self, now: float) -> float:
        return now - self.since


def test_the_one_that_holds_most_for_the_longest_time_goes_first() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(100)
    early, small, late = Reader(40), Reader(5), Reader(90, since=9.0)
    assert unsent.hold(early, 0.0) == []
    assert unsent.hold(small, 0.0) == []
    assert unsent.hold(late, 10.0) == [early]
    unsent.let_go(early)
    assert unsent.held == 95


def test_a_slow_reader_that_holds_little_stays_whoever_else_stalls() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(1000)
    honest = Reader(10)
    unsent.hold(honest, 0.0)
    victims = [victim for _ in range(20) for victim in unsent.hold(Reader(300, since=9.0), 10.0)]
    assert victims
    assert honest not in victims


def test_what_was_taken_meanwhile_no_longer_counts() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(100)
    first = Reader(90)
    unsent.hold(first, 0.0)
    first.size = 10
    assert unsent.hold(Reader(80), 1.0) == []
    assert unsent.held == 90


def test_who_took_its_replies_is_forgotten() -> None:
    unsent: UnsentBudget[Reader] = UnsentBudget(100)
    first = Reader(90)
    unsent.hold(first, 0.0)
    unsent.let_go(first)
    unsent.let_go(first)
    assert unsent.hold(Reader(90), 0.0) == []
    assert unsent.held == 90


def test_one_that_alone_holds_too_much_goes_itself() -> None:
    alone = Reader(101)
    assert UnsentBudget[Reader](100).hold(alone, 0.0) == [alone]
