"""The table of states, compared with an independent one."""

import pytest

from penstock.transactions.states import BY_NAME, ENDING, STATES, State, is_legal


def test_numbers_and_names_are_kafkas() -> None:
    assert {state.value: STATES[state].name for state in State} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }
    assert BY_NAME["PrepareAbort"] is State.PREPARE_ABORT


# fmt: off
LEGAL = {
    "from, to":            "Emp Ong PCo PAb CCo CAb Dea Fen",
    State.EMPTY:           " x   x   .   x   .   .   x   . ",
    State.ONGOING:         " .   x   x   x   .   .   .   x ",
    State.PREPARE_COMMIT:  " .   .   .   .   x   .   .   . ",
    State.PREPARE_ABORT:   " .   .   .   .   .   x   .   . ",
    State.COMPLETE_COMMIT: " x   x   .   x   .   .   x   . ",
    State.COMPLETE_ABORT:  " x   x   .   x   .   .   x   . ",
    State.DEAD:            " .   .   .   .   .   .   .   . ",
    State.PREPARE_EPOCH_FENCE: " .   .   .   x   .   .   .   . ",
}
# fmt: on


@pytest.mark.parametrize("before", list(State))
def test_only_legal_transitions_are_allowed(before: State) -> None:
    assert [is_legal(before, after) for after in State] == [cell == "x" for cell in LEGAL[before].split()]


def test_an_unknown_id_begins_empty() -> None:
    assert [after for after in State if is_legal(None, after)] == [State.EMPTY]


def test_a_decision_is_never_changed() -> None:
    assert not is_legal(State.PREPARE_COMMIT, State.COMPLETE_ABORT)
    assert not is_legal(State.PREPARE_ABORT, State.COMPLETE_COMMIT)
    assert not is_legal(State.PREPARE_COMMIT, State.PREPARE_ABORT)
    assert not any(STATES[state].may_expire for state in ENDING | {State.ONGOING})
