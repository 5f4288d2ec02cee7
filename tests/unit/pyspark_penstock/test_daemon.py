"""What is ours in Spark's Python daemon: workers that Spark has hung up on end in silence."""

import pytest

from pyspark_penstock.daemon import HUNG_UP, without_complaint


@pytest.mark.parametrize("problem", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset")])
def test_a_worker_that_spark_has_hung_up_on_ends_without_a_trace(problem: OSError) -> None:
    def worker(*_: object) -> int:
        raise problem

    # Not 0: the daemon's loop would wait for the next task on a socket that is closed.
    assert without_complaint(worker)("socket", True) == HUNG_UP
    assert bool(HUNG_UP)


def test_what_a_worker_returns_and_any_other_error_pass() -> None:
    def broken(*_: object) -> int:
        raise ValueError("ours")

    assert without_complaint(lambda sock, authenticated: int(authenticated))("socket", False) == 0
    with pytest.raises(ValueError, match="ours"):
        without_complaint(broken)("socket", True)
