from typing import Any

import pytest

from penstock.actions.connection import Connection
from penstock_console.clusters import ClusterAccess
from penstock_console.errors import ApiError
from penstock_console.jobs import Job
from penstock_console.plans import LIFETIME_S, PLANS_MAX, Change, Context, Outcome, Plan, Plans
from penstock_console.settings import ClusterSettings, Policy


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Counter:
    """A cluster with a number that a change sets."""

    def __init__(self) -> None:
        self.value = 1
        self.blocked: str | None = None
        self.noise = 0

    def plan(self, context: Context) -> Plan:
        target = context.arguments.integer("to")

        def execute(job: Job) -> Outcome:
            self.value = target
            return Outcome("Done.")

        return Plan(
            title="Set the number",
            command=["penstock", "set", str(target)],
            columns=["before", "after"],
            rows=[{"before": self.value, "after": target, "noise": self.noise}],
            volatile=["noise"],
            execute=execute,
            blocked=self.blocked,
        )


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def change(counter: Counter) -> Change:
    return Change(action="number.set", doc="", arguments=("to",), plan=counter.plan)


def access() -> ClusterAccess:
    settings = ClusterSettings(name="local", connection=Connection("broker:9092"))
    return ClusterAccess(settings, settings.connection, Policy(None, True), {})


def code_of(plans: Plans, change: Change, where: ClusterAccess, digest: str) -> tuple[str, Any]:
    with pytest.raises(ApiError) as raised:
        plans.take(change, where, digest)
    assert raised.value.status == 409
    return raised.value.code, raised.value.more.get("plan")


def test_a_plan_is_executed_as_it_was_shown(counter: Counter, change: Change) -> None:
    plans, where = Plans(), access()
    shown = plans.make(change, where, {"to": 7})
    assert shown["command"] == "penstock set 7 --bootstrap broker:9092"
    assert counter.value == 1
    _, plan = plans.take(change, where, shown["digest"])
    assert plan.execute(Job("number.set")).message == "Done."
    assert counter.value == 7


def test_a_digest_works_once(change: Change) -> None:
    plans, where = Plans(), access()
    digest = plans.make(change, where, {"to": 7})["digest"]
    plans.take(change, where, digest)
    assert code_of(plans, change, where, digest) == ("PLAN_UNKNOWN", None)


def test_a_plan_is_refused_if_the_cluster_has_changed(counter: Counter, change: Change) -> None:
    plans, where = Plans(), access()
    digest = plans.make(change, where, {"to": 7})["digest"]
    counter.value = 5
    code, again = code_of(plans, change, where, digest)
    assert code == "PLAN_STALE"
    assert again["rows"][0]["before"] == 5
    # The new plan can be executed.
    plans.take(change, where, again["digest"])


def test_what_is_volatile_does_not_make_a_plan_stale(counter: Counter, change: Change) -> None:
    plans, where = Plans(), access()
    digest = plans.make(change, where, {"to": 7})["digest"]
    counter.noise = 99
    plans.take(change, where, digest)


def test_a_plan_expires(change: Change) -> None:
    clock = Clock()
    plans, where = Plans(clock), access()
    digest = plans.make(change, where, {"to": 7})["digest"]
    clock.now = LIFETIME_S + 1
    assert code_of(plans, change, where, digest)[0] == "PLAN_UNKNOWN"


def test_a_plan_belongs_to_its_user_and_its_action(counter: Counter, change: Change) -> None:
    plans, where = Plans(), access()
    other = Change(action="other", doc="", arguments=("to",), plan=counter.plan)
    digest = plans.make(change, where, {"to": 7})["digest"]
    assert code_of(plans, change, access(), digest)[0] == "PLAN_UNKNOWN"
    assert code_of(plans, other, where, digest)[0] == "PLAN_UNKNOWN"
    # An attempt by someone else does not use it up.
    plans.take(change, where, digest)


def test_a_blocked_plan_has_no_digest(counter: Counter, change: Change) -> None:
    counter.blocked = "The number is in use."
    shown = Plans().make(change, access(), {"to": 7})
    assert shown["digest"] is None
    assert shown["blocked"] == "The number is in use."


def test_a_plan_that_became_impossible_is_not_executed(counter: Counter, change: Change) -> None:
    plans, where = Plans(), access()
    digest = plans.make(change, where, {"to": 7})["digest"]
    counter.blocked = "The number is in use."
    code, again = code_of(plans, change, where, digest)
    assert (code, again["digest"]) == ("PLAN_STALE", None)


def test_the_oldest_plans_are_forgotten(change: Change) -> None:
    plans, where = Plans(), access()
    digests = [plans.make(change, where, {"to": 7})["digest"] for _ in range(PLANS_MAX + 1)]
    assert code_of(plans, change, where, digests[0])[0] == "PLAN_UNKNOWN"
    plans.take(change, where, digests[-1])


@pytest.mark.parametrize("given", [{}, {"to": "x"}, {"to": True}, {"to": 1.5}, {"to": -1}, {"to": 1, "more": 2}])
def test_invalid_arguments_are_rejected(change: Change, given: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as raised:
        Plans().make(change, access(), given)
    assert raised.value.status == 400
