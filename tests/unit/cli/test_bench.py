from penstock.actions.bench.measurement import Totals
from penstock.cli.bench import find_problem, render_rates
from penstock.cli.produce import Acks

NONE = Totals(0, 0, 0, 0.0, None, None, None)
SOME = Totals(1000, 2_000_000, 0, 1.0, 1000, 2500, 9000)


def test_rates_are_those_of_the_interval() -> None:
    assert " ".join(render_rates(NONE, SOME, 0.5).split()) == "2,000 records/s 4.0 MB/s p99 2.5 ms"


def test_lost_records_and_errors_are_problems() -> None:
    def problem(acks: Acks, consumed: Totals, has_consumers: bool = True) -> str | None:
        return find_problem(SOME, consumed, "", acks=acks, has_consumers=has_consumers)

    assert problem(Acks.ALL, SOME) is None
    assert "10 of 1000 acknowledged records were not read back" in (problem(Acks.ALL, SOME._replace(records=990)) or "")
    assert problem(Acks.NONE, SOME._replace(records=990)) is None
    assert problem(Acks.ALL, NONE, has_consumers=False) is None
    failed = SOME._replace(errors=2)
    assert find_problem(failed, SOME, "Refused.", acks=Acks.ALL, has_consumers=True) == (
        "2 errors; the first is: Refused."
    )
