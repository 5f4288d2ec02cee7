"""The cost of authorization: of a small Produce, of a decision that is not cached, and until a change is enforced.

`python -m benchmarks.authorization`. The first two are microbenchmarks in one process: variants alternate, and the
fastest batch of each counts, because noise only adds time. The Produce handler runs without its log, which costs more
than the difference. The last one runs three nodes on one event loop, and measures from the request until the last node
has applied the ACL; nodes on machines of their own do not wait for each other.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.replication.partition import Partition
from penstock.security.authorizer import AclIndex
from penstock.security.principal import user
from penstock.security.rights import Authorizer
from penstock.wire.frame import parse_header
from tests.differential.entities import request_frame
from tests.integration.test_authorized_cluster import ready
from tests.integration.test_secured_cluster import SecuredCluster
from tests.support.authorization_rows import need
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST
from tests.support.security import Certificates, jaas
from tests.unit.handlers.hot import batch, leader, replicated
from tests.unit.replication.replicated_partition import TOPIC

ACLS, PREFIXES, NESTED = 10_000, 100, 50
CALLS, BATCHES = 500, 200
CHANGES = 30


def acl(name: str, pattern: int = PatternType.LITERAL, principal: str = "User:bob") -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern, principal, "*", Operation.WRITE, Permission.ALLOW)


def many_acls() -> list[Acl]:
    """Return ACLs for other topics, 100 prefixes of different lengths, and one for the topic."""
    prefixes = [acl("p" * (number + 1), PatternType.PREFIXED) for number in range(PREFIXES)]
    return [*(acl(f"other-{number}") for number in range(ACLS - PREFIXES - 1)), *prefixes, acl(TOPIC)]


def fastest(*variants: Callable[[], object]) -> list[float]:
    """Return the microseconds of a call of each variant, in the fastest of many alternating batches."""
    best = [float("inf")] * len(variants)
    for _ in range(BATCHES):
        for number, variant in enumerate(variants):
            began = time.perf_counter_ns()
            for _ in range(CALLS):
                variant()
            best[number] = min(best[number], (time.perf_counter_ns() - began) / CALLS / 1000)
    return best


async def produce_cost() -> tuple[float, float, float]:
    """Return the microseconds of a Produce of 100 B without an authorizer, with one ACL, and with 10,000."""
    values = {
        "acks": 0,
        "timeout": 1000,
        "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch(b"v" * 100)}]}],
    }
    frame = bytes(request_frame("produce", 12, values)[4:])
    async with replicated() as world:
        handle = leader(world).produce.handle
        appended = leader(world).partition.append(
            memoryview(bytearray(batch(b"v" * 100))), acks=0, now_ms=world.clock.wall_ms()
        )

        def sending(rights: Any) -> Callable[[], None]:
            def send() -> None:
                view = memoryview(bytearray(frame))
                header = parse_header(view)
                header.rights = rights
                handle(view, header, "PLAINTEXT", None)

            return send

        variants = [sending(None)]
        for acls in ([acl(TOPIC)], many_acls()):
            authorizer = Authorizer()
            authorizer.load(acls)
            variants.append(sending(authorizer.rights(user("bob"), "127.0.0.1")))
        with patch.object(Partition, "append", lambda *given, **options: appended):
            bare, one, many = fastest(*variants)
        return bare, one, many


def decision_cost(name: str) -> float:
    """Return the microseconds of a decision among 10,000 ACLs that is not cached."""
    index = AclIndex(many_acls())
    (cost,) = fastest(lambda: index.decide("User:bob", "127.0.0.1", Operation.WRITE, ResourceType.TOPIC, name))
    return cost


async def enforcement_ms(folder: Path) -> list[float]:
    """Return how long changes took from the request until the last of three nodes had applied them."""
    cluster = SecuredCluster(folder, "SSL", Certificates(folder))
    for member in cluster.members.values():
        member.settings |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "listener.name.clients.plain.sasl.jaas.config": jaas(admin="admin", eve="eve"),
        }
    async with cluster:
        controller = await ready(cluster)
        applied = dict.fromkeys(cluster.members, 0.0)
        admin = LoggedIn("acls", HOST, cluster.client_ports[controller - 1], user="admin", password="admin")
        for node_id, member in cluster.members.items():
            authorizer = member.node.context.authorizer
            assert authorizer is not None
            authorizer.on_change.append(partial(_note, applied, node_id))
        took = []
        for number in range(CHANGES):
            creation = need("topic read", name=f"topic-{number}").as_acl("User:eve")
            began = time.perf_counter()
            answer: Any = await asyncio.to_thread(lambda: admin.ask("create_acls", 3, creations=[creation]))  # noqa: B023
            assert answer["results"][0]["error_code"] == "0 none"
            async with asyncio.timeout(10):
                while min(applied.values()) < began:  # noqa: ASYNC110
                    await asyncio.sleep(0.0005)
            took.append((max(applied.values()) - began) * 1000)
        admin.hang_up()
        # The first request logs in.
        return took[1:]


def _note(applied: dict[int, float], node_id: int) -> None:
    applied[node_id] = time.perf_counter()


def added_steps_cost() -> float:
    """Return the microseconds of the steps that an authorizer adds to a Produce of one topic."""
    authorizer = Authorizer()
    authorizer.load(many_acls())
    rights, key = authorizer.rights(user("bob"), "127.0.0.1"), TOPIC.encode()
    assert rights.may_write(key, TOPIC, by_id=False)

    def check(rights: Any) -> bool:
        known = None if rights is None else rights.writable_names
        return known is not None and key not in known

    without, with_rights = fastest(lambda: check(None), lambda: check(rights))
    return with_rights - without


def main() -> None:
    bare, one, many = asyncio.run(produce_cost())
    print(
        f"Produce of 100 B, handler only: {bare:.2f} us; with an authorizer {one - bare:+.2f} us (bar +0.3), ", end=""
    )
    print(f"with {ACLS} ACLs {many - bare:+.2f} us (bar +0.3)")
    print(f"the steps that an authorizer adds to it, alone: {added_steps_cost():+.3f} us")
    few, nested = decision_cost("pp-orders"), decision_cost("p" * NESTED + "-orders")
    print(f"decision that is not cached, {ACLS} ACLs, {PREFIXES} prefixes: {few:.1f} us (bar 20), ", end="")
    print(f"if {NESTED} of the prefixes match {nested:.1f} us")
    with tempfile.TemporaryDirectory() as folder:
        took = asyncio.run(enforcement_ms(Path(folder)))
    print(f"change until enforced on three nodes: median {median(took):.1f} ms, ", end="")
    print(f"longest of {len(took)} {max(took):.1f} ms (bar 100)")


if __name__ == "__main__":
    main()
