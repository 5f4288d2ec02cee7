"""The Java client's consumers join and leave at random while a producer runs, over either protocol."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.testing.process import BrokerProcess
from tests.compat.churn import PARTITIONS, Stream, committed, new_place
from tests.support.group_audit import audit
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

RECORDS = 2000


@pytest.mark.parametrize("kill", [False, True], ids=["", "through a kill"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_come_and_go(tools: JavaTools, churn_broker: BrokerProcess, protocol: str, kill: bool) -> None:
    """The runner itself sees to it that all is delivered and nothing has two owners in one generation."""
    seconds = 6
    place = new_place(churn_broker.bootstrap)
    stream = Stream(place, count=RECORDS, seconds=seconds)
    stream.start()

    def kill_and_start() -> None:
        time.sleep(seconds / 2)  # the members come and go for so many seconds
        churn_broker.kill()
        churn_broker.start()

    killer = threading.Thread(target=kill_and_start)
    if kill:
        killer.start()
    where = (place.bootstrap, place.topic, place.group, protocol)
    told = tools.check("GroupChurn", *where, "41", str(seconds), str(RECORDS))
    if kill:
        killer.join()
    stream.finish()
    assert told.startswith(f"seen {RECORDS} ")
    assert committed(place) == [RECORDS // PARTITIONS] * PARTITIONS
    history = audit(place.bootstrap, place.group)
    assert not history.faults, history.faults
    assert history.commits > 10 and history.generations > 3
