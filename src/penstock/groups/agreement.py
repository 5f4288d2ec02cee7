"""A comparison of a live shard with one replayed from the same log, for tests and the simulator.

A rebalance in progress is not in the log. For such a group only the generation is compared.
"""

from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.shard import GroupShard


def differences(live: GroupShard, replayed: GroupShard) -> list[str]:
    """Return a description of each difference that a restart would cause; empty if there is none."""
    found = []
    if live.offsets.by_group != replayed.offsets.by_group:
        found.append(f"offsets: {live.offsets.by_group} and {replayed.offsets.by_group}")
    if live.offsets.pending.snapshot() != replayed.offsets.pending.snapshot():
        found.append(f"pending: {live.offsets.pending.snapshot()} and {replayed.offsets.pending.snapshot()}")
    if live.groups.keys() != replayed.groups.keys():
        found.append(f"groups: {sorted(live.groups)} and {sorted(replayed.groups)}")
    for group_id in live.groups.keys() & replayed.groups.keys():
        one, other = live.groups[group_id], replayed.groups[group_id]
        if isinstance(one, ClassicGroup) and isinstance(other, ClassicGroup):
            found += _classic_differences(one, other)
        elif isinstance(one, ConsumerGroup) and isinstance(other, ConsumerGroup):
            if one.snapshot() != other.snapshot():
                found.append(f"{group_id}: {one.snapshot()} and {other.snapshot()}")
        else:
            found.append(f"{group_id}: {one.type} and {other.type}")
    return found


def _classic_differences(live: ClassicGroup, replayed: ClassicGroup) -> list[str]:
    if live.is_rebalancing:
        if replayed.generation > live.generation:
            return [f"{live.id}: generation {live.generation} and {replayed.generation}"]
        return []
    if (live.state, live.to_value(), live.subscribed) != (replayed.state, replayed.to_value(), replayed.subscribed):
        return [f"{live.id}: {live.state} {live.to_value()} and {replayed.state} {replayed.to_value()}"]
    return []
