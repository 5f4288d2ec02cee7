"""The `uniform` assignor for members that subscribe to different topics.

Members keep what they still subscribe to; what nobody owns goes, topic by topic, to the
subscriber with the fewest partitions; then partitions move from the fullest subscriber of
a topic to the emptiest until no topic gains by it. Topics with the most partitions for each
subscriber come first, because there is the least choice for them.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final
from uuid import UUID

from penstock.groups.consumer.assignors.values import Assignment, GroupAssignment, MemberSubscription

ROUNDS_MAX: Final = 16
"""Balancing one topic can unbalance another that shares some subscribers. Each round about halves what is left."""
_NOBODY: Final = -1


def assign(members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> GroupAssignment:
    """Give every partition of a subscribed topic to one of the topic's subscribers."""
    return _Balancer(members, topics).assign()


class _Subscribers:
    """The members, by number, that subscribe to a topic. Topics with the same ones share this."""

    __slots__ = ("_emptiest", "_made_at", "members")

    def __init__(self, members: list[int]) -> None:
        self.members = members
        self._emptiest: list[tuple[int, int]] = []
        self._made_at = -1

    def emptiest(self, sizes: list[int], now: int) -> list[tuple[int, int]]:
        """A heap of them by how many partitions they have; kept until sizes change behind its back."""
        if self._made_at != now:
            self._emptiest = [(sizes[index], index) for index in self.members]
            heapify(self._emptiest)
            self._made_at = now
        return self._emptiest

    def keep_up(self, now: int) -> None:
        """Say that the heap has seen every change up to now."""
        self._made_at = now


class _Balancer:
    """An assignment under construction. Members are numbers here, in the order of their ids."""

    def __init__(self, members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> None:
        self._order = sorted(members)
        self._members = [members[member_id] for member_id in self._order]
        self._sizes = [0] * len(self._order)
        self._change_count = 0
        self._changed: set[int] = set()
        self._subscribers = _subscribers(self._members, topics)
        self._owners = {topic: [_NOBODY] * topics[topic] for topic in self._subscribers}
        self._topics = sorted(self._subscribers, key=self._urgency)

    def _urgency(self, topic: UUID) -> tuple[float, int, UUID]:
        count = len(self._subscribers[topic].members)
        return -len(self._owners[topic]) / count, count, topic

    def assign(self) -> GroupAssignment:
        for index, member in enumerate(self._members):
            self._keep(index, member)
        for topic in self._topics:
            self._hand_out(topic)
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
                if partition < len(owners) and owners[partition] == _NOBODY:
                    owners[partition] = index
                    self._sizes[index] += 1
                else:
                    self._changed.add(index)

    def _hand_out(self, topic: UUID) -> None:
        owners = self._owners[topic]
        if _NOBODY not in owners:
            return
        subscribers = self._subscribers[topic]
        emptiest = subscribers.emptiest(self._sizes, self._change_count)
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                size, index = emptiest[0]
                owners[partition] = index
                self._sizes[index] = size + 1
                self._changed.add(index)
                heapreplace(emptiest, (size + 1, index))
                self._change_count += 1
        subscribers.keep_up(self._change_count)

    def _balance_all(self) -> bool:
        """Balance each topic once; return whether any partition moved."""
        before = self._change_count
        balanced_at: dict[int, int] = {}
        for topic in self._topics:
            subscribers = self._subscribers[topic]
            # With no change since the same subscribers were found alike there is nothing to look for.
            if balanced_at.get(id(subscribers)) != self._change_count and self._is_balanced(subscribers):
                balanced_at[id(subscribers)] = self._change_count
            if balanced_at.get(id(subscribers)) != self._change_count:
                self._balance(topic, subscribers)
        return self._change_count > before

    def _is_balanced(self, subscribers: _Subscribers) -> bool:
        sizes = [self._sizes[index] for index in subscribers.members]
        return max(sizes) - min(sizes) <= 1

    def _balance(self, topic: UUID, subscribers: _Subscribers) -> None:
        """Move partitions of one topic while that makes its subscribers more alike."""
        sizes = self._sizes
        owners = self._owners[topic]
        owned: dict[int, list[int]] = {}
        for partition, index in enumerate(owners):
            owned.setdefault(index, []).append(partition)
        fullest = [(-sizes[index], index) for index in owned]
        heapify(fullest)
        emptiest = subscribers.emptiest(sizes, self._change_count)
        # Sizes in the heaps go stale, harmlessly: whoever takes ends up at most one above the emptiest, and
        # whoever gives never falls below it, so neither is due for the other role before all is balanced.
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
        return {member_id: self._settled(index, given.get(index)) for index, member_id in enumerate(self._order)}

    def _settled(self, index: int, given: dict[UUID, list[int]] | None) -> Assignment:
        if given is None:
            return self._members[index].target
        return {topic: frozenset(partitions) for topic, partitions in given.items()}


def _subscribers(members: list[MemberSubscription], topics: Mapping[UUID, int]) -> dict[UUID, _Subscribers]:
    """The subscribers of each topic that has partitions."""
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
