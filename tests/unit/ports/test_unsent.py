"""Who has to go when unread answers hold too much memory."""

from penstock.ports.unsent import UnsentBudget


def test_the_one_that_waits_longest_goes_first() -> None:
    unsent: UnsentBudget[str] = UnsentBudget(100)
    assert unsent.hold("a", 40) == []
    assert unsent.hold("b", 40) == []
    assert unsent.hold("c", 90) == ["a", "b"]
    unsent.let_go("a")
    unsent.let_go("b")
    assert unsent.held == 90


def test_who_took_its_answers_is_forgotten() -> None:
    unsent: UnsentBudget[str] = UnsentBudget(100)
    unsent.hold("a", 90)
    unsent.let_go("a")
    unsent.let_go("a")
    assert unsent.hold("b", 90) == []
    assert unsent.held == 90


def test_one_that_alone_holds_too_much_goes_itself() -> None:
    assert UnsentBudget[str](100).hold("a", 101) == ["a"]
