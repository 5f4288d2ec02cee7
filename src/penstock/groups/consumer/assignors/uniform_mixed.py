"""The `uniform` assignor for members that subscribe to different topics.

Members keep partitions of topics they still subscribe to. Unowned partitions go, topic by topic, to the
subscriber with the fewest partitions. Then partitions move from a topic's fullest subscriber
to its emptiest until no topic benefits. Topics with the most partitions per subscriber
come first, because they leave the least choice.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final
from uuid import UUID

from penstock.groups.consumer.assignors.values import Assignment, GroupAssignment, MemberSubscription

ROUNDS_MAX: Final = 16
"""Balancing one topic can unbalance another that shares subscribers. Each round about halves the imbalance."""
_UNOWNED: Final = -1


def assign(members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> GroupAssignment:
    """Assign every partition of a subscribed topic to one of the topic's subscribers."""
    return _Balancer(members, topics).assign()


class _Subscribers:
    """The subscribers of a topic, as member indexes. Shared by topics with the same subscribers."""

    __slots__ = ("_emptiest", "_made_at", "members")

    def __init__(self, members: list[int]) -> None:
        self.members = members
        self._emptiest: list[tuple[int, int]] = []
        self._made_at = -1

    def emptiest(self, sizes: list[int], now: int) -> list[tuple[int, int]]:
        """Return a heap of subscribers by number of partitions; rebuilt when sizes changed without it."""
        if self._made_at != now:
            self._emptiest = [(sizes[index], index) for index in self.members]
            heapify(self._emptiest)
            self._made_at = now
        return self._emptiest

    def mark_current(self, now: int) -> None:
        """Mark the heap as current."""
        self._made_at = now


class _Balancer:
    """An assignment under construction. Members are indexes in the order of their ids."""

    def __init__(self, members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> None:
        self._order = sorted(members)
        self._members = [members[member_id] for member_id in self._order]
        self._sizes = [0] * len(self._order)
        self._change_count = 0
        self._changed: set[int] = set()
        self._subscribers = _subscribers(self._members, topics)
        self._owners = {topic: [_UNOWNED] * topics[topic] for topic in self._subscribers}
        self._topics = sorted(self._subscribers, key=self._urgency)

    def _urgency(self, topic: UUID) -> tuple[float, int, UUID]:
        count = len(self._subscribers[topic].members)
        return -len(self._owners[topic]) / count, count, topic

    def assign(self) -> GroupAssignment:
        for index, member in enumerate(self._members):
            self._keep(index, member)
        for topic in self._topics:
            self._distribute(topic)
        for _ in range(ROUNDS_MAX):
            if not self._balance_all():
                break
        return self._result()

    def _keep(self, index: int, member: MemberSubscription) -> None:
        for topic, partitions in member.target.items():
            owners = self._owners.get(topic) if topic in member.topics else None
            if owners is None:
                self._changed.add(index)
                continue
            for partition in partitions:
                if partition < len(owners) and owners[partition] == _UNOWNED:
                    owners[partition] = index
                    self._sizes[index] += 1
                else:
                    self._changed.add(index)

    def _distribute(self, topic: UUID) -> None:
        owners = self._owners[topic]
        if _UNOWNED not in owners:
            return
        subscribers = self._subscribers[topic]
        emptiest = subscribers.emptiest(self._sizes, self._change_count)
        for partition, owner in enumerate(owners):
            if owner == _UNOWNED:
                size, index = emptiest[0]
                owners[partition] = index
                self._sizes[index] = size + 1
                self._changed.add(index)
                heapreplace(emptiest, (size + 1, index))
                self._change_count += 1
        subscribers.mark_current(self._change_count)

    def _balance_all(self) -> bool:
        """Balance each topic once; return whether any partition moved."""
        before = self._change_count
        balanced_at: dict[int, int] = {}
        for topic in self._topics:
            subscribers = self._subscribers[topic]
            # If no partition moved since these subscribers were found to be balanced, they still are.
            if balanced_at.get(id(subscribers)) != self._change_count and self._is_balanced(subscribers):
                balanced_at[id(subscribers)] = self._change_count
            if balanced_at.get(id(subscribers)) != self._change_count:
                self._balance(topic, subscribers)
        return self._change_count > before

    def _is_balanced(self, subscribers: _Subscribers) -> bool:
        sizes = [self._sizes[index] for index in subscribers.members]
        return max(sizes) - min(sizes) <= 1

    def _balance(self, topic: UUID, subscribers: _Subscribers) -> None:
        """Move partitions of one topic as long as that makes its subscribers more equal."""
        sizes = self._sizes
        owners = self._owners[topic]
        owned: dict[int, list[int]] = {}
        for partition, index in enumerate(owners):
            owned.setdefault(index, []).append(partition)
        fullest = [(-sizes[index], index) for index in owned]
        heapify(fullest)
        emptiest = subscribers.emptiest(sizes, self._change_count)
        # Sizes in the heaps may be stale, which is harmless: a taker ends at most one above the emptiest, and a
        # giver never falls below it, so neither is due for the other role before the topic is balanced.
        while fullest:
            giver, taker = fullest[0][1], emptiest[0][1]
            if sizes[giver] - sizes[taker] <= 1:
                break
            owners[owned[giver].pop()] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            heapreplace(emptiest, (sizes[taker], taker))
            if owned[giver]:
                heapreplace(fullest, (-sizes[giver], giver))
            else:
                heappop(fullest)
            self._changed.update((giver, taker))
            self._change_count += 1

    def _result(self) -> GroupAssignment:
        given: dict[int, dict[UUID, list[int]]] = {index: {} for index in self._changed}
        for topic in sorted(self._owners):
            for partition, index in enumerate(self._owners[topic]):
                if index in given:
                    given[index].setdefault(topic, []).append(partition)
        return {member_id: self._reuse_target(index, given.get(index)) for index, member_id in enumerate(self._order)}

    def _reuse_target(self, index: int, given: dict[UUID, list[int]] | None) -> Assignment:
        if given is None:
            return self._members[index].target
        return {topic: frozenset(partitions) for topic, partitions in given.items()}


def _subscribers(members: list[MemberSubscription], topics: Mapping[UUID, int]) -> dict[UUID, _Subscribers]:
    """Return the subscribers of each topic that has partitions."""
    alike: dict[frozenset[UUID], list[int]] = {}
    for index, member in enumerate(members):
        alike.setdefault(member.topics, []).append(index)
    kinds: dict[UUID, list[int]] = {}
    for kind, subscription in enumerate(alike):
        for topic in subscription:
            if topics.get(topic, 0) > 0:
                kinds.setdefault(topic, []).append(kind)
    indexes = list(alike.values())
    shared = {
        combination: _Subscribers(sorted(index for kind in combination for index in indexes[kind]))
        for combination in {tuple(found) for found in kinds.values()}
    }
    return {topic: shared[tuple(found)] for topic, found in kinds.items()}
