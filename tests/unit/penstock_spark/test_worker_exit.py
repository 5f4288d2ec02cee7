"""Tests of the quiet exit of workers whose connection Spark has closed."""

from types import SimpleNamespace

import pytest

from penstock_spark.worker_exit import HUNG_UP, hush, without_complaint


@pytest.mark.parametrize("problem", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset")])
def test_a_worker_with_a_closed_connection_exits_without_a_trace(problem: OSError) -> None:
    def worker(*_: object) -> int:
        raise problem

    assert without_complaint(worker)("socket", True) == HUNG_UP
    assert bool(HUNG_UP)


def test_the_result_of_a_worker_and_other_errors_are_passed_on() -> None:
    def broken(*_: object) -> int:
        raise ValueError("ours")

    assert without_complaint(lambda sock, authenticated: int(authenticated))("socket", False) == 0
    with pytest.raises(ValueError, match="ours"):
        without_complaint(broken)("socket", True)


def test_workers_of_sparks_own_daemon_exit_quietly_and_other_modules_are_unchanged() -> None:
    def worker(*_: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    sparks = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"), worker=worker)
    another = SimpleNamespace(__spec__=SimpleNamespace(name="pytest.__main__"), worker=worker)
    script = SimpleNamespace(__spec__=None, worker=worker)
    for module in (sparks, another, script):
        hush(module)
    assert sparks.worker("socket", True) == HUNG_UP
    assert another.worker is script.worker is worker
