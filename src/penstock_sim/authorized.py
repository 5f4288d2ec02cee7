"""ACLs that change while a user without rights of its own sends requests.

The prober compares each answer with a search of all ACLs in the images that the node had between the request and the
response. It complains if none of them allows what was done, or if all of them allow what was denied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.ports.network import Dialer
from penstock.wire.api import ApiKey
from penstock_sim import secured
from penstock_sim.client import Client, Lost, Shared, Unavailable, seconds
from penstock_sim.plan import Plan
from penstock_sim.timeline import Timeline
from penstock_sim.tokens import TokenUser

OPTIONS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{secured.USER}",
}
PRINCIPAL: Final = f"User:{secured.OTHER_USER}"
TOPIC_DENIED: Final = 29
UNDECIDED: Final = (-1, 7, 41)
"""The request failed before it was authorized: an unknown error, no controller in time, or not the controller."""
_OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE, Operation.ALL)


def is_allowed(
    acls: Collection[Acl], principal: str, host: str, operation: int, kind: int, name: str, *, if_no_acl: bool
) -> bool:
    """Decide by a search of all ACLs: the reference for security/authorizer.py."""
    implied = {8: (3, 4, 6, 7, 8), 10: (10, 11)}.get(operation, (operation,))
    on_resource = [
        acl for acl in acls if acl[0] == kind and (acl[1] in (name, "*") if acl[2] == 3 else name.startswith(acl[1]))
    ]
    matching = [acl for acl in on_resource if acl[3] in (principal, "User:*") and acl[4] in (host, "*")]
    if any(acl[6] == 2 and acl[5] in (operation, 2) for acl in matching):
        return False
    if any(acl[6] == 3 and acl[5] in (*implied, 2) for acl in matching):
        return True
    return if_no_acl and not on_resource


class AclAdmin(Client):
    """A super user that creates and deletes ACLs of the prober."""

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(0.2 + self.random.random())
            try:
                await self._change()
            except (Lost, Unavailable):
                continue

    async def _change(self) -> None:
        address = self.random.choice(self.shared.bootstrap)
        if self.random.random() < 0.6:
            acls = [self._draw() for _ in range(self.random.choice((1, 1, 2, 3)))]
            await self.ask(address, ApiKey.CREATE_ACLS, 3, creations=[_creation(acl) for acl in acls])
        else:
            acl = self._draw()
            await self.ask(address, ApiKey.DELETE_ACLS, 3, filters=[self._filter(acl)])

    def _draw(self) -> Acl:
        name, pattern = self.random.choice(
            (("topic0", PatternType.LITERAL), ("top", PatternType.PREFIXED), ("*", PatternType.LITERAL))
        )
        return Acl(
            ResourceType.TOPIC,
            name,
            pattern,
            self.random.choice((PRINCIPAL, PRINCIPAL, "User:*")),
            "*",
            self.random.choice(_OPERATIONS),
            Permission.DENY if self.random.random() < 0.3 else Permission.ALLOW,
        )

    def _filter(self, acl: Acl) -> dict[str, Any]:
        """Return a filter for one kind of ACL, or for most of them."""
        return {
            "resource_type_filter": ResourceType.TOPIC,
            "resource_name_filter": acl.resource_name if self.random.random() < 0.7 else None,
            "pattern_type_filter": PatternType.ANY,
            "principal_filter": acl.principal,
            "host_filter": None,
            "operation": acl.operation if self.random.random() < 0.5 else Operation.ANY,
            "permission_type": acl.permission if self.random.random() < 0.7 else Permission.ANY,
        }


def _creation(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "resource_pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


class _Probe(NamedTuple):
    api_key: int
    version: int
    operation: int
    values: Mapping[str, Any]
    code: Any
    """Returns the error code of the only topic or partition."""


_PROBES: Final = (
    _Probe(
        ApiKey.PRODUCE,
        9,
        Operation.WRITE,
        # Without records nothing is written.
        {
            "acks": 1,
            "timeout": seconds(1),
            "topic_data": [{"name": "topic0", "partition_data": [{"index": 0, "records": None}]}],
        },
        lambda reply: reply.responses[0].partition_responses[0].error_code,
    ),
    _Probe(
        ApiKey.FETCH,
        11,
        Operation.READ,
        {
            "replica_id": -1,
            "max_wait": seconds(0.4),
            "min_bytes": 1 << 20,
            "max_bytes": 1000,
            "session_epoch": -1,
            "topics": [
                {"topic": "topic0", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}
            ],
        },
        lambda reply: reply.responses[0].partitions[0].error_code,
    ),
    _Probe(
        ApiKey.METADATA,
        9,
        Operation.DESCRIBE,
        {"topics": [{"name": "topic0"}], "allow_auto_topic_creation": False},
        lambda reply: reply.topics[0].error_code,
    ),
    _Probe(
        ApiKey.CREATE_TOPICS,
        7,
        Operation.CREATE,
        {
            "topics": [
                {"name": "topic0", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            ],
            "timeout": seconds(5),
            "validate_only": True,
        },
        lambda reply: reply.topics[0].error_code,
    ),
)


class Prober(Client):
    """A user that sends requests which ACLs allow or deny."""

    def __init__(self, shared: Shared, name: str, timeline: Timeline) -> None:
        super().__init__(shared, name)
        self._timeline = timeline

    def _dialer(self) -> Dialer:
        return secured.dialer(self, user=secured.OTHER_USER)

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(0.1 + self.random.random() * 0.4)
            try:
                await self._probe(self.random.choice(_PROBES))
            except (Lost, Unavailable):
                continue

    async def _probe(self, probe: _Probe) -> None:
        address = self.random.choice(self.shared.bootstrap)
        begin, starts = self.now, {name: self._timeline.starts(name) for name in self._timeline.hosts}
        reply = await self.ask(address, probe.api_key, probe.version, **probe.values)
        code = int(probe.code(reply))
        if code in UNDECIDED:
            return
        is_forwarded = probe.api_key == ApiKey.CREATE_TOPICS
        names = list(self._timeline.hosts) if is_forwarded else [address[0]]
        if any(self._timeline.starts(name) != starts[name] for name in names):
            return
        states = [state for name in names for state in self._timeline.between(name, begin, self.now)]
        verdicts = {
            is_allowed(
                image.acls.values(), PRINCIPAL, "", probe.operation, ResourceType.TOPIC, "topic0", if_no_acl=False
            )
            for image in states
        }
        if verdicts == {False} and code != TOPIC_DENIED:
            self.complain(f"inv_54: {address[0]} carried out operation {probe.operation}, which no ACL allowed: {code}")
        if verdicts == {True} and code == TOPIC_DENIED:
            self.complain(f"inv_54: {address[0]} denied operation {probe.operation}, which its ACLs allow")


def clients(shared: Shared, plan: Plan, timeline: Timeline) -> list[Client]:
    """Return the clients that test the security of a secured cluster."""
    topics = [topic.name for topic in plan.topics]
    found: list[Client] = [secured.Intruder(shared, "intruder", lifetime_ms=plan.session_ms, topics=topics)]
    found.append(TokenUser(shared, "token-user", timeline))
    if plan.authorized:
        found += [AclAdmin(shared, "acl-admin"), Prober(shared, "prober", timeline)]
    return found
