"""Whatever happens to the brokers, the controller elects no leader that lacks committed records.

A model keeps the logs of all replicas beside the image: every member of the ISR has all committed records while
the ISR has min ISR members. Each step is an action of a broker or a person, and applies the controller's records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.controller.alter_partition import IsrChange, IsrMember, decide_alter_partition
from penstock.controller.brokers import Registration
from penstock.controller.directories import ReplicaDirectory, decide_assignment
from penstock.controller.elections import PREFERRED, UNCLEAN, decide_balance, decide_elections
from penstock.controller.heartbeats import Heartbeat, HeartbeatReply
from penstock.controller.leaders import Rules, can_serve, directory_online, is_unclean
from penstock.controller.reassignments import Reassignment, decide_reassignments
from penstock.controller.sessions import Sessions
from penstock.controller.settings import Change, Judge, Operation, ResourceChanges, decide_incremental_alter
from penstock.metadata.image import EMPTY, TOPIC, ConfigResource, Image, PartitionImage
from penstock.metadata.records import (
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from penstock.model.ids import NO_NODE, NodeId, TopicName
from tests.unit.controller.cluster import apply, decide_fencing, decide_heartbeat, decide_registration, node_ids

NODES = node_ids(1, 2, 3, 4, 5)
MIN_ISR = 2
SEEDS, STEPS = 200, 200
RULES = Rules(BrokerSettings({"min.insync.replicas": str(MIN_ISR)}))
TOPICS = {"synced": UUID(int=1001), "lazy": UUID(int=1002)}
"""One topic guarantees that acknowledged records are on disk, the other does not."""

Log = tuple[int, ...]


@dataclass
class Process:
    directory: UUID
    up: bool = False
    epoch: int = -1
    stopped_cleanly: bool = False
    full: bool = False
    logs: dict[str, Log] = field(default_factory=dict)


class Cluster:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.image: Image = EMPTY
        self.sessions = Sessions(9.0)
        self.count = 0
        self.processes = {node_id: Process(UUID(int=500 + node_id)) for node_id in NODES}
        self.committed: dict[str, Log] = dict.fromkeys(TOPICS, ())
        self.unclean: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self.min_isr = dict.fromkeys(TOPICS, MIN_ISR)

    # -- the cluster --------------------------------------------------------------------------

    def begin(self) -> None:
        for node_id in NODES:
            self.register(node_id)
            self.heartbeat(node_id)
        records: list[MetadataRecord] = []
        for name, topic_id in TOPICS.items():
            records.append(TopicRecord(name=name, topic_id=topic_id))
            replicas = node_ids(1, 2, 3)
            records.append(
                PartitionRecord(
                    partition_id=0,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=1,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple(self.processes[node_id].directory for node_id in replicas),
                )
            )
        records.append(ConfigRecord(resource_type=2, resource_name="lazy", name="flush.mode", value="os"))
        self.image = apply(self.image, records)

    def partition(self, name: str) -> PartitionImage:
        return self.image.topics[TopicName(name)].partitions[0]

    def log(self, node_id: NodeId, name: str) -> Log:
        return self.processes[node_id].logs.get(name, ())

    def holds(self, node_id: NodeId, name: str) -> bool:
        committed = self.committed[name]
        return self.log(node_id, name)[: len(committed)] == committed

    def put(self, records: Sequence[MetadataRecord], *, is_requested: bool = False) -> None:
        for record in records:
            before = self.image
            if isinstance(record, PartitionChangeRecord):
                name = next(name for name, topic_id in TOPICS.items() if topic_id == record.topic_id)
                partition = self.partition(name)
                if is_unclean(partition, record):
                    # Only by request, or when all replicas have stopped without a guarantee.
                    assert is_requested or (name == "lazy" and (record.leader,) == partition.last_known_elr)
                    self.unclean[name] += 1
                self.check_replicas_kept(name, partition, record)
            self.image = apply(before, [record])
            self.check_epochs(before)

    def check_replicas_kept(self, name: str, before: PartitionImage, record: PartitionChangeRecord) -> None:
        if record.replicas is None or self.unclean[name]:
            return
        known = (*before.isr, *before.eligible_leader_replicas)
        if not all(self.has_reported(NodeId(node_id)) for node_id in record.replicas):
            return  # The controller trusts a process that is down and has lost records.
        held = sum(self.holds(node_id, name) for node_id in known)
        kept = sum(self.holds(NodeId(node_id), name) for node_id in record.replicas)
        assert kept >= min(held, self.min_isr[name], len(record.replicas))

    def check_epochs(self, before: Image) -> None:
        for name in self.image.topics:
            if name not in before.topics:
                continue
            old, new = before.topics[name].partitions[0], self.image.topics[name].partitions[0]
            assert new.leader_epoch >= old.leader_epoch
            assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
            assert new is old or new.partition_epoch > old.partition_epoch

    # -- brokers ------------------------------------------------------------------------------

    def register(self, node_id: NodeId) -> None:
        process = self.processes[node_id]
        self.count += 1
        registration = Registration(
            node_id=node_id,
            cluster_id="c",
            incarnation_id=UUID(int=10_000 + self.count),
            end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=node_id, security_protocol=0),),
            log_dirs=(process.directory,),
            previous_broker_epoch=process.epoch if process.stopped_cleanly else -1,
        )
        decision = decide_registration(self.image, registration, cluster_id="c", rules=RULES, has_live_process=False)
        process.up, process.epoch, process.stopped_cleanly = True, decision.reply, False
        assert decision.reply == self.image.offset + len(decision.records)
        self.put(list(decision.records))
        self.sessions.touch(node_id, decision.reply, 0.0)

    def heartbeat(self, node_id: NodeId, *, stop: bool = False) -> HeartbeatReply:
        process = self.processes[node_id]
        self.sessions.touch(node_id, process.epoch, 0.0, metadata_offset=self.image.offset)
        heartbeat = Heartbeat(
            node_id=node_id,
            broker_epoch=process.epoch,
            metadata_offset=self.image.offset,
            want_shut_down=stop,
            read_only=process.full,
        )
        decision = decide_heartbeat(self.image, heartbeat, sessions=self.sessions, rules=RULES)
        self.put(list(decision.records))
        if decision.reply.leaving:
            self.sessions.record_shutdown(node_id, self.image.offset)
        return decision.reply

    def start(self, node_id: NodeId) -> None:
        if not self.processes[node_id].up:
            self.register(node_id)

    def kill_and_start(self, node_id: NodeId) -> None:
        self.register(node_id)

    def beat(self, node_id: NodeId) -> None:
        if self.processes[node_id].up:
            self.heartbeat(node_id)

    def kill(self, node_id: NodeId) -> None:
        self.processes[node_id].up = False

    def cut_power(self, node_id: NodeId) -> None:
        process = self.processes[node_id]
        if process.up:
            process.up = False
            lazy = process.logs.get("lazy", ())
            process.logs["lazy"] = lazy[: len(lazy) // 2]

    def lose_disk(self, node_id: NodeId) -> None:
        process = self.processes[node_id]
        self.count += 1
        process.up = process.stopped_cleanly = False
        process.logs, process.directory = {}, UUID(int=20_000 + self.count)

    def fill_or_free_disk(self, node_id: NodeId) -> None:
        self.processes[node_id].full = not self.processes[node_id].full

    def fence(self, node_id: NodeId) -> None:
        broker = self.image.brokers.get(node_id)
        if broker is not None:
            self.put(list(decide_fencing(self.image, node_id, epoch=broker.epoch, rules=RULES).records))

    def stop(self, node_id: NodeId) -> None:
        process = self.processes[node_id]
        if not process.up:
            return
        for _ in range(3):
            if self.heartbeat(node_id, stop=True).should_shut_down:
                process.up, process.stopped_cleanly = False, True
                assert all(self.partition(name).leader != node_id for name in TOPICS)
                return
            for other in NODES:
                if self.processes[other].up and other != node_id:
                    self.sessions.touch(other, self.processes[other].epoch, 0.0, metadata_offset=self.image.offset)
        dead = [
            broker.node_id
            for broker in self.image.brokers.values()
            if can_serve(broker) and not self.processes[broker.node_id].up
        ]
        assert dead, "all brokers have seen its shutdown, but it may not stop"

    # -- leaders and followers ----------------------------------------------------------------

    def leads(self, name: str) -> NodeId | None:
        leader = self.partition(name).leader
        if leader == NO_NODE or not self.processes[leader].up:
            return None
        return leader if self.image.brokers[leader].epoch == self.processes[leader].epoch else None

    def produce(self, name: str) -> None:
        leader = self.leads(name)
        if leader is None or self.processes[leader].full:
            return
        self.count += 1
        log = (*self.log(leader, name), self.count)
        self.processes[leader].logs[name] = log
        partition = self.partition(name)
        for node_id in partition.isr:
            process = self.processes[node_id]
            if process.up and not process.full and self.random.random() < 0.8:
                self.processes[node_id].logs[name] = log
        in_sync = all(self.log(node_id, name) == log for node_id in partition.isr)
        if in_sync and len(partition.isr) >= min(self.min_isr[name], len(partition.replicas)):
            self.committed[name] = log

    def catch_up(self, name: str, node_id: NodeId) -> None:
        leader = self.leads(name)
        process = self.processes[node_id]
        partition = self.partition(name)
        if leader is None or not process.up or node_id not in partition.replicas or node_id == leader:
            return
        if process.full:
            return
        process.logs[name] = self.log(leader, name)
        broker = self.image.brokers[node_id]
        if not directory_online(broker, partition, node_id) and broker.epoch == process.epoch:
            refilled = ReplicaDirectory(TOPICS[name], 0, process.directory)
            self.put(list(decide_assignment(self.image, node_id, process.epoch, [refilled], RULES).records))

    def alter(self, name: str, isr: list[NodeId]) -> None:
        leader = self.leads(name)
        assert leader is not None
        partition = self.partition(name)
        change = IsrChange(
            topic_id=TOPICS[name],
            partition=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=tuple(IsrMember(node_id, self.processes[node_id].epoch) for node_id in isr),
        )
        decision = decide_alter_partition(self.image, leader, self.processes[leader].epoch, [change], RULES)
        self.put(list(decision.records))

    def shrink(self, name: str, node_id: NodeId) -> None:
        leader = self.leads(name)
        if leader is not None and node_id != leader:
            self.alter(name, [each for each in self.partition(name).isr if each != node_id])

    def expand(self, name: str, node_id: NodeId) -> None:
        leader = self.leads(name)
        partition = self.partition(name)
        if leader is None or node_id in partition.isr or node_id not in partition.replicas:
            return
        if self.processes[node_id].up and self.log(node_id, name) == self.log(leader, name):
            self.alter(name, [*partition.isr, node_id])

    # -- administrators and the controller ----------------------------------------------------

    def reassign(self, name: str) -> None:
        target = self.random.sample(NODES, self.random.randint(1, 4))
        reassignment = Reassignment(TopicName(name), 0, tuple(target))
        self.put(list(decide_reassignments(self.image, [reassignment], rules=RULES).records))

    def cancel(self, name: str) -> None:
        reassignment = Reassignment(TopicName(name), 0, None)
        self.put(list(decide_reassignments(self.image, [reassignment], rules=RULES).records))

    def change_min_isr(self, name: str) -> None:
        self.min_isr[name] = self.random.randint(1, 3)
        change = Change("min.insync.replicas", Operation.SET, str(self.min_isr[name]))
        requests = [ResourceChanges(ConfigResource(TOPIC, name), (change,))]
        judge = Judge(self.image, RULES.settings, NODES[0])
        self.put(decide_incremental_alter(judge, requests, validate_only=False).records)

    def elect_preferred(self, name: str) -> None:
        self.put(list(decide_elections(self.image, {TopicName(name): [0]}, PREFERRED, RULES).records))

    def balance(self) -> None:
        self.put(list(decide_balance(self.image, RULES).records))

    def elect_uncleanly(self, name: str) -> None:
        self.put(list(decide_elections(self.image, {TopicName(name): [0]}, UNCLEAN, RULES).records), is_requested=True)

    # -- invariants ---------------------------------------------------------------------------

    def partitions_are_sound(self) -> None:
        for topic in self.image.topics.values():
            partition = topic.partitions[0]
            members = (*partition.isr, *partition.eligible_leader_replicas)
            assert len(set(members)) == len(members)
            assert set(members) <= set(partition.replicas)
            assert len(partition.directories) == len(partition.replicas)
            if partition.leader != NO_NODE:
                assert partition.leader in partition.isr
                assert can_serve(self.image.brokers[partition.leader])
            for node_id in partition.isr:
                # A restarted or fenced broker is not in the ISR (KIP-903).
                assert can_serve(self.image.brokers[node_id])
                assert directory_online(self.image.brokers[node_id], partition, node_id)
            # A read-only member is out, unless all members are read-only.
            assert len({self.image.brokers[node_id].read_only for node_id in partition.isr}) < 2
            if len(partition.isr) >= min(self.min_isr[topic.name], len(partition.replicas)):
                assert not partition.eligible_leader_replicas
            if not self.unclean[topic.name]:
                for node_id in members:
                    assert self.trusted_to_hold(node_id, topic.name), f"{node_id} lacks records of {topic.name}"

    def trusted_to_hold(self, node_id: NodeId, name: str) -> bool:
        # A process that is down or restarting is checked after its registration.
        return not self.has_reported(node_id) or self.holds(node_id, name)

    def has_reported(self, node_id: NodeId) -> bool:
        """Return whether the process has registered, and so reported what it has lost."""
        process = self.processes[node_id]
        return process.up and self.image.brokers[node_id].epoch == process.epoch

    def step(self, *, unclean: bool) -> None:
        """Perform one random action, or inject one fault."""
        of_nodes = [self.start] * 6 + [self.beat] * 8
        of_nodes += [self.kill, self.kill_and_start, self.cut_power, self.fence, self.fence, self.stop, self.lose_disk]
        of_nodes += [self.fill_or_free_disk] * 2
        of_topics = [self.produce] * 8 + [self.reassign, self.reassign, self.cancel, self.elect_preferred]
        of_topics.append(self.change_min_isr)
        of_both = [self.catch_up] * 8 + [self.expand] * 8 + [self.shrink] * 3
        if unclean:
            of_topics.append(self.elect_uncleanly)
        node_id, name = self.random.choice(NODES), self.random.choice(sorted(TOPICS))
        kind = self.random.random()
        if kind < 0.3:
            self.random.choice(of_nodes)(node_id)
        elif kind < 0.5:
            self.random.choice(of_topics)(name)
        elif kind < 0.99:
            self.random.choice(of_both)(name, node_id)
        else:
            self.balance()


@pytest.mark.parametrize("unclean", [False, True])
def test_no_leader_lacks_committed_records(unclean: bool) -> None:
    committed = elected_uncleanly = 0
    for seed in range(SEEDS):
        cluster = Cluster(Random(seed))
        cluster.begin()
        try:
            for _ in range(STEPS):
                cluster.step(unclean=unclean)
                cluster.partitions_are_sound()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        committed += len(cluster.committed["synced"])
        elected_uncleanly += cluster.unclean["synced"]
        assert unclean or not cluster.unclean["synced"]
    assert committed > SEEDS, "too few commits for a meaningful test"
    assert not unclean or elected_uncleanly
