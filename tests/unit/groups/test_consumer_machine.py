"""Random members, topics, losses and restarts, checked against the invariants of a consumer group.

After every step: no partition has two owners, neither in the group nor among its clients (34); a replay of
the log gives the same group (32); a commit from an older epoch is rejected unless the member has owned the
partition since then (33). When all clients behave for a while, every partition has an owner.
"""

from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from penstock.groups.classic.group import ClassicGroup, State
from penstock.groups.consumer import target, update
from penstock.groups.consumer.group import ConsumerGroup
from penstock.model.errors import Refusal
from tests.unit.groups.consumer_clients import ClassicClient, Client, ConsumerClient, TopicPartition
from tests.unit.groups.groups_model import GROUP, GroupsModel

NAMES = ("foo", "fox", "bar")
topic_sets = st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=3)
instances = st.sampled_from([None, None, None, "i", "j"])
BEAT_MS = 3_000


class GroupMachine(RuleBasedStateMachine):
    clients: Bundle[Client] = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupsModel({"foo": 3, "bar": 2})
        self.living: list[Client] = []
        self.world.clients = self.living
        self.count = 0

    @initialize(interval=st.sampled_from([0, 0, 1_000]))
    def choose_settings(self, interval: int) -> None:
        self.world = GroupsModel({"foo": 3, "bar": 2}, assignment_interval_ms=interval)
        self.world.clients = self.living

    def _start(self, client: Client) -> Client:
        self.living.append(client)
        client.step(self.world)
        return client

    def _name(self) -> str:
        self.count += 1
        return f"m{self.count}"

    # -- members -----------------------------------------------------------------------------

    @rule(target=clients, topics=topic_sets, instance=instances)
    def consumer_starts(self, topics: frozenset[str], instance: str | None) -> Client:
        return self._start(ConsumerClient(self._name(), topics, instance))

    @rule(target=clients, instance=instances, topics=st.just(frozenset[str]()) | topic_sets)
    def consumer_with_a_regex_starts(self, instance: str | None, topics: frozenset[str]) -> Client:
        return self._start(ConsumerClient(self._name(), topics, instance, regex="fo"))

    @rule(client=clients, topics=topic_sets)
    def subscription_changes(self, client: Client, topics: frozenset[str]) -> None:
        if isinstance(client, ConsumerClient):
            client.subscribe(topics)
            client.step(self.world)

    @rule(client=clients, is_lost=st.booleans(), is_slow=st.booleans())
    def client_acts(self, client: Client, is_lost: bool, is_slow: bool) -> None:
        if client in self.living:
            client.step(self.world, is_lost=is_lost, is_slow=is_slow)

    @rule()
    def all_clients_act(self) -> None:
        for client in self.living:
            client.step(self.world)

    @rule(client=consumes(clients))
    def client_leaves(self, client: Client) -> None:
        if client in self.living:
            client.leave(self.world)
            self.living.remove(client)

    @rule(client=consumes(clients))
    def client_dies(self, client: Client) -> None:
        if client in self.living:
            self.living.remove(client)
            client.owned = frozenset()

    # -- topics, time and restarts -----------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 4))
    def topic_changes(self, name: str, count: int) -> None:
        before = self.world.counts.get(name, 0)
        # A topic can only grow; for fewer partitions it must be deleted first.
        if count != before and (count > before or count == 0):
            self.world.set_topics(**{name: count})
            if count == 0:
                for client in self.living:
                    self._forget_topic(client, name)

    def _forget_topic(self, client: Client, name: str) -> None:
        client.owned = frozenset(partition for partition in client.owned if partition[0] != name)
        if isinstance(client, ConsumerClient):
            client.assigned = frozenset(partition for partition in client.assigned if partition[0] != name)

    @rule(delay_ms=st.sampled_from([0, 1_000, 5_000, 11_000, 21_000, 46_000]))
    def time_passes(self, delay_ms: int) -> None:
        self.world.advance(delay_ms)

    @rule(is_compacted=st.booleans())
    def coordinator_restarts(self, is_compacted: bool) -> None:
        if is_compacted:
            self.world.compact()
        self.world.restart()
        for client in self.living:
            if isinstance(client, ClassicClient):
                client.forget_requests()

    @rule()
    def all_clients_behave_for_a_while(self) -> None:
        for _ in range(60):
            for client in self.living:
                client.step(self.world)
            self.world.write_parts()
            self.world.advance(BEAT_MS)
            if self._is_settled():
                break
        assert self._is_settled(), f"{self.owned()} of {self.wanted()}: {self.world.shard.groups.get(GROUP)}"

    # -- invariants --------------------------------------------------------------------------

    def owned(self) -> list[TopicPartition]:
        return [partition for client in self.living for partition in client.owned]

    def wanted(self) -> set[TopicPartition]:
        topics = {topic for client in self.living for topic in client.wanted(self.world)}
        return {(topic, number) for topic in topics for number in range(self.world.counts[topic])}

    def _is_settled(self) -> bool:
        # Two processes with the same instance id keep fencing each other; only one of them can be in the group.
        instance_ids = [client.instance_id for client in self.living if client.instance_id]
        if len(instance_ids) != len(set(instance_ids)):
            return True
        owned = self.owned()
        group = self.world.shard.groups.get(GROUP)
        if isinstance(group, ConsumerGroup) and group.state_name not in ("Stable", "Empty"):
            return False
        if isinstance(group, ClassicGroup) and group.state not in (State.STABLE, State.EMPTY):
            return False
        return len(owned) == len(set(owned)) and set(owned) == self.wanted()

    def _is_current(self, group: ConsumerGroup, client: Client) -> bool:
        """Return whether the group still has the client; a classic one is out when its generation ends."""
        member = group.members.get(client.member_id)
        return member is not None and (isinstance(client, ConsumerClient) or client.epoch == member.epoch)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.world.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        group.validate()
        owned = [partition for client in self.living if self._is_current(group, client) for partition in client.owned]
        assert len(owned) == len(set(owned)), owned

    @invariant()
    def a_client_owns_only_partitions_that_the_group_records_as_its_own(self) -> None:
        group = self.world.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        for client in self.living:
            if not self._is_current(group, client):
                continue
            member = group.members[client.member_id]
            for name, partition in client.owned:
                # A classic group keeps the partitions of a deleted topic until its next rebalance.
                if (topic := self.world.topics.by_name.get(name)) is None:
                    continue
                held = {*member.assigned.get(topic.id, {}), *member.revoking.get(topic.id, {})}
                assert partition in held, (client.name, name, partition)

    @invariant()
    def only_an_owner_may_commit(self) -> None:
        group = self.world.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        for member in group.members.values():
            for epoch in range(1, group.epoch + 2):
                if epoch == member.epoch:
                    continue
                try:
                    check = group.commit_check(member_id=member.id, instance_id=None, generation=epoch)
                except Refusal:
                    assert epoch > member.epoch
                    continue
                assert check is not None and epoch < member.epoch
                for topic_id, owners in group.owners.items():
                    for partition, owner in owners.items():
                        try:
                            check(topic_id, partition)
                        except Refusal:
                            continue
                        assert owner == member.id


class MigrationMachine(GroupMachine):
    """The same machine with members of the classic protocol too."""

    clients = GroupMachine.clients

    @rule(target=GroupMachine.clients, topics=topic_sets, instance=instances)
    def classic_client_starts(self, topics: frozenset[str], instance: str | None) -> Client:
        return self._start(ClassicClient(self._name(), topics, instance))


class LargeGroupMachine(MigrationMachine):
    """The same machine as if every group were large: targets are computed off the event loop and written in parts."""

    clients = GroupMachine.clients

    def __init__(self) -> None:
        super().__init__()
        self._patches = [patch.object(module, "MEMBERS_AT_ONCE_MAX", -1) for module in (target, update)]
        for each in self._patches:
            each.start()

    def teardown(self) -> None:
        for each in self._patches:
            each.stop()

    @precondition(lambda self: self.world.computed)
    @rule()
    def a_part_of_a_target_is_written(self) -> None:
        self.world.write_part()

    @precondition(lambda self: self.world.computed)
    @rule()
    def a_part_of_a_target_cannot_be_written(self) -> None:
        self.world.fail_assignment()


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=25, stateful_step_count=40)
TestMigrationMachine = MigrationMachine.TestCase
TestMigrationMachine.settings = settings(max_examples=25, stateful_step_count=40)
TestLargeGroupMachine = LargeGroupMachine.TestCase
TestLargeGroupMachine.settings = settings(max_examples=25, stateful_step_count=40)


@pytest.mark.slow
class TestGroupMachineForLong(TestGroupMachine):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.slow
class TestMigrationMachineForLong(TestMigrationMachine):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.slow
class TestLargeGroupMachineForLong(TestLargeGroupMachine):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=150, stateful_step_count=40)
