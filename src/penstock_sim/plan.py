"""The plan of a seed: nodes, topics, clients, and faults with their frequency.

Swarm testing: each seed enables a random subset, so that rare combinations occur. Faults stay within the guarantees;
seeds with rot or loss of committed data on a single replica are marked `beyond`, and must lead to errors, never to
wrong results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

SINGLE_FAULTS: Mapping[str, float] = MappingProxyType(
    {
        "kill": 15.0,
        "power_loss": 15.0,
        "clean_stop": 25.0,
        "crash_point": 12.0,
        "pause": 15.0,
        "slow_disk": 15.0,
        "sync_fails": 30.0,
        "disk_full": 25.0,
        "write_fails": 25.0,
        "derived_files": 20.0,
        "rot": 12.0,
        "clock_jump": 15.0,
        "reset": 8.0,
        "client_partition": 20.0,
        "bad_weather": 15.0,
        "late_requests": 6.0,
        "client_pause": 15.0,
    }
)
"""Faults of a single node, each with its mean interval in seconds."""

CLUSTER_FAULTS: Mapping[str, float] = MappingProxyType(
    {
        "partition": 15.0,
        "one_way_partition": 20.0,
        "all_down": 40.0,
        "late_peer_requests": 1.5,
    }
)


LOSSES: Mapping[str, float] = MappingProxyType({"folder_lost": 12.0, "segment_lost": 12.0, "segment_cut": 12.0})
"""Lost files; all on one disk, as with rot."""

CERTIFICATE_FAULTS: Mapping[str, float] = MappingProxyType(
    {"certificate_expires": 15.0, "certificate_untrusted": 15.0, "handshakes_stall": 15.0}
)
"""Faults of TLS between the nodes of a secured cluster."""

LOSSES_CHANCE = 0.2
UNREADABLE_CHANCE = 0.1
SHARES_CHANCE = 0.3
TABLES_CHANCE = 0.25


SECURED_CHANCE = 0.2
AUTHORIZED_CHANCE = 0.7
MACHINES_CHANCE = 0.15
SLOW_OPENS_CHANCE = 0.15
TUNES_CHANCE = 0.15


@dataclass(slots=True)
class TopicPlan:
    name: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    seed: int
    nodes: int = 1
    cores: int = 1
    """How many nodes each machine has."""
    safety_s: float = 40.0
    heal_s: float = 90.0
    """The time after the last fault by which everything must work again."""
    topics: list[TopicPlan] = field(default_factory=list)
    tables: list[TopicPlan] = field(default_factory=list)
    """Compacted topics; only dedicated clients write to them."""
    cleaning: dict[str, str] = field(default_factory=dict)
    """The nodes' compaction settings."""
    tombstone_s: float = 0.0
    """How long a consumer may rely on tombstones; 0 if clocks are unreliable."""
    plain_producers: int = 1
    idempotent_producers: int = 1
    consumers: int = 2
    members: int = 0
    sharers: int = 0
    """Members of a share group."""
    share_limit: int = 5
    """The delivery count limit of the share group."""
    shares_are_committed: bool = False
    """Whether the share group reads only committed records."""
    dead_letters: bool = False
    """Whether the share group has a dead-letter topic."""
    share_reset: str = "earliest"
    grows: bool = False
    """Whether a topic of the share group gets a second partition."""
    alters: bool = False
    """Whether the offsets of the share group are altered and deleted at the end."""
    transactors: int = 0
    zombies: bool = False
    trims: bool = False
    churn: bool = False
    tunes: bool = False
    """Whether a client changes min.insync.replicas."""
    dawdles: bool = False
    pause_s: float = 0.4
    faults: dict[str, float] = field(default_factory=dict)
    clock_rates: bool = False
    sync_s: float = 0.002
    open_s: float = 0.0
    """How long opening a file takes. If it takes time, a node that starts opens its logs in several turns."""
    small_size_max: int = 0
    """The size up to which segments have no saved indexes."""
    headers_per_slice: int = 512
    """How many batches one slice of a recovery verifies."""
    last_power_loss: bool = False
    secured: bool = False
    """Whether clients log in and nodes authenticate each other."""
    authorized: bool = False
    """Whether a secured cluster has an authorizer."""
    session_ms: int = 0
    """The lifetime of a session on a secured cluster; 0 means no limit."""
    lag_ms: int = 30_000
    """How long a follower may lag and stay in the ISR."""

    @property
    def beyond(self) -> bool:
        return self.nodes == 1 and any(name in self.faults for name in ("rot", "bad_sector", "log_unreadable", *LOSSES))

    def summary(self) -> str:
        faults = " ".join(f"{name}={mean:.0f}s" for name, mean in self.faults.items()) or "none"
        cores = f"/{self.cores}" if self.cores > 1 else ""
        security = " authorized" if self.authorized else " secured" if self.secured else ""
        return (
            f"nodes={self.nodes}{cores} topics={len(self.topics)}+{len(self.tables)} producers={self.plain_producers}+"
            f"{self.idempotent_producers} consumers={self.consumers} members={self.members}+{self.sharers} "
            f"transactors={self.transactors}{security} faults: {faults}"
        )


def draw(seed: int, *, nodes: int | None = None) -> Plan:
    """Return the plan of a seed."""
    random = Random(f"{seed}:plan")
    plan = Plan(seed)
    plan.nodes = nodes if nodes is not None else random.choice((1, 3, 3))
    plan.safety_s = random.choice((10.0, 18.0, 30.0))
    for index in range(random.choice((1, 1, 2))):
        configs = {"internal.segment.bytes": str(random.choice((700, 2000, 20_000)))}
        configs["index.interval.bytes"] = str(random.choice((1, 200, 4096)))
        plan.topics.append(TopicPlan(f"topic{index}", random.choice((1, 1, 2, 3)), configs))
    plan.plain_producers = random.choice((0, 1, 1, 2))
    plan.idempotent_producers = random.choice((0, 1, 1, 2))
    plan.consumers = random.choice((1, 2, 2))
    plan.members = random.choice((0, 0, 1, 2, 3))
    plan.transactors = random.choice((0, 0, 1, 2))
    plan.zombies = random.random() < 0.4
    plan.trims = random.random() < 0.25
    plan.dawdles = random.random() < 0.4
    plan.churn = random.random() < 0.2
    plan.pause_s = random.choice((0.25, 0.6, 1.2))
    plan.clock_rates = random.random() < 0.3
    plan.sync_s = random.choice((0.001, 0.005, 0.05))
    plan.last_power_loss = random.random() < 0.5
    if random.random() < 0.93:
        pool = SINGLE_FAULTS if plan.nodes == 1 else {**SINGLE_FAULTS, **CLUSTER_FAULTS}
        chance = random.choice((0.15, 0.3, 0.5))
        for name, mean in pool.items():
            likely = chance if name != "rot" else chance / 3
            if random.random() < likely:
                plan.faults[name] = mean * random.choice((0.4, 1.0, 2.0))
        _draw_read_faults(plan, Random(f"{seed}:reads"))
    plan.lag_ms = Random(f"{seed}:lag").choice((1_500, 5_000, 30_000))
    if (chosen := Random(f"{seed}:losses")).random() < LOSSES_CHANCE:
        for name in chosen.sample(sorted(LOSSES), chosen.choice((1, 1, 2, 3))):
            plan.faults[name] = LOSSES[name] * chosen.choice((0.4, 1.0, 2.0))
    if (chosen := Random(f"{seed}:unreadable")).random() < UNREADABLE_CHANCE:
        plan.faults["log_unreadable"] = 12.0 * chosen.choice((0.4, 1.0, 2.0))
    if (chosen := Random(f"{seed}:tables")).random() < TABLES_CHANCE:
        _draw_tables(plan, chosen)
    if (chosen := Random(f"{seed}:secured")).random() < SECURED_CHANCE:
        plan.secured = True
        plan.session_ms = chosen.choice((0, 4_000))
        plan.authorized = chosen.random() < AUTHORIZED_CHANCE
        if plan.nodes > 1 and plan.faults:
            for name in chosen.sample(sorted(CERTIFICATE_FAULTS), chosen.choice((0, 1, 1, 2, 3))):
                plan.faults[name] = CERTIFICATE_FAULTS[name] * chosen.choice((0.4, 1.0, 2.0))
    if (chosen := Random(f"{seed}:shares")).random() < SHARES_CHANCE:
        plan.sharers = chosen.choice((1, 2, 3))
        plan.share_limit = chosen.choice((2, 5, 10, 10))
        plan.shares_are_committed = chosen.random() < 0.4
        plan.dead_letters = chosen.random() < 0.4
        plan.alters = chosen.random() < 0.5
        plan.grows = chosen.random() < 0.5
        plan.share_reset = chosen.choice(("earliest", "earliest", "latest"))
    if (chosen := Random(f"{seed}:topology")).random() < MACHINES_CHANCE and plan.nodes == 3 and not plan.secured:
        plan.nodes, plan.cores = 6, 2
        if plan.faults:
            plan.faults["machine_down"] = 12.0 * chosen.choice((0.4, 1.0, 2.0))
    if (chosen := Random(f"{seed}:opens")).random() < SLOW_OPENS_CHANCE:
        plan.open_s = chosen.choice((0.0007, 0.002))
    plan.tunes = plan.nodes > 1 and Random(f"{seed}:tunes").random() < TUNES_CHANCE
    plan.small_size_max = Random(f"{seed}:small").choice((0, 1000, 16_384))
    plan.headers_per_slice = Random(f"{seed}:slices").choice((2, 20, 512))
    return plan


def _draw_read_faults(plan: Plan, random: Random) -> None:
    """Draw read errors during a response, transient or permanent."""
    if random.random() < 0.25:
        plan.faults["send_fails"] = 12.0 * random.choice((0.4, 1.0, 2.0))
    if random.random() < 0.15:
        plan.faults["bad_sector"] = 12.0 * random.choice((0.4, 1.0, 2.0))


def _draw_tables(plan: Plan, random: Random) -> None:
    """Draw a compacted topic with small segments, and possibly compaction of the coordinators' logs."""
    # As in Kafka, a replica that is down for longer may miss a deletion: no fault lasts that long.
    kept_ms = random.choice((0, 1500, 15_000)) if plan.nodes == 1 else 2 * 3600 * 1000
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(random.choice((500, 1200))),
        "index.interval.bytes": str(random.choice((1, 200))),
        "min.cleanable.dirty.ratio": random.choice(("0.01", "0.3")),
        "delete.retention.ms": str(kept_ms),
    }
    if random.random() < 0.3:
        configs["max.compaction.lag.ms"] = "2000"
    plan.tables.append(TopicPlan("table0", random.choice((1, 1, 2)), configs))
    plan.cleaning["log.cleaner.backoff.ms"] = random.choice(("300", "1500"))
    if random.random() < 0.3:
        # Memory for five keys: a log takes several passes.
        plan.cleaning |= {"log.cleaner.dedupe.buffer.size": str(2 << 20), "log.cleaner.io.buffer.load.factor": "0.0005"}
    if random.random() < 0.5:
        plan.cleaning |= {"log.roll.ms": random.choice(("400", "2000")), "log.cleaner.min.cleanable.ratio": "0.2"}
    if "clock_jump" not in plan.faults and not plan.clock_rates:
        plan.tombstone_s = 0.95 * kept_ms / 1000
