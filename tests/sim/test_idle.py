"""The timers of an idle node."""

import asyncio

from penstock_sim.loop import SimHandle
from penstock_sim.scenario import Story

QUIET_S = 60.0


class QuietNode(Story):
    """A node whose partitions have one record each; it counts the timers that it sets in a minute without requests."""

    def __init__(self, partitions: int) -> None:
        writes = [f"produce orders-{index} count=1 acks=all -> ok" for index in range(partitions)]
        super().__init__([f"cluster brokers=1 partitions={partitions}", *writes, "wait 60", "count-timers"], "idle")
        self.timers = 0

    async def do_count_timers(self) -> str:
        node, place = self.hosts[0].owner, self.loop._at

        def count(when: float, handle: SimHandle) -> None:
            self.timers += handle.owner is node
            place(when, handle)

        self.loop._at = count  # type: ignore[method-assign]
        await asyncio.sleep(QUIET_S)
        return "ok"


def test_partitions_have_no_timers_of_their_own() -> None:
    one, many = QuietNode(1), QuietNode(300)
    one.play()
    many.play()
    assert 0 < many.timers < one.timers + 100
