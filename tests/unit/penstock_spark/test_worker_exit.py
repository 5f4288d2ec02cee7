"""Workers that Spark has hung up on end in silence."""

from types import SimpleNamespace

import pytest

from penstock_spark.worker_exit import HUNG_UP, hush, without_complaint


@pytest.mark.parametrize("problem", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset")])
def test_a_worker_that_spark_has_hung_up_on_ends_without_a_trace(problem: OSError) -> None:
    def worker(*_: object) -> int:
        raise problem

    assert without_complaint(worker)("socket", True) == HUNG_UP
    assert bool(HUNG_UP)


def test_what_a_worker_returns_and_any_other_error_pass() -> None:
    def broken(*_: object) -> int:
        raise ValueError("ours")

    assert without_complaint(lambda sock, authenticated: int(authenticated))("socket", False) == 0
    with pytest.raises(ValueError, match="ours"):
        without_complaint(broken)("socket", True)


def test_workers_of_sparks_own_daemon_are_hushed_and_nothing_else_is() -> None:
    def worker(*_: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    sparks = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"), worker=worker)
    another = SimpleNamespace(__spec__=SimpleNamespace(name="pytest.__main__"), worker=worker)
    script = SimpleNamespace(__spec__=None, worker=worker)
    for module in (sparks, another, script):
        hush(module)
    assert sparks.worker("socket", True) == HUNG_UP
    assert another.worker is script.worker is worker
