"""DescribeClientQuotas, AlterClientQuotas, and the effect of controller_mutation_rate on topic changes."""

from __future__ import annotations

import time
from typing import Any

from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, SETTLE_SECONDS_MAX, Session
from tests.support.eventually import eventually

Change = tuple[str, float | None]
Entity = dict[str, str | None]
EXACT, DEFAULT, SPECIFIED = range(3)


def entry(entity: Entity, *changes: Change) -> dict[str, object]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes],
    }


def note(s: Session, label: str, answer: Any) -> None:
    """Record a response in a fixed order: Kafka keeps entities and their parts in hash maps."""
    if isinstance(answer, dict):
        for one in answer["entries"] or ():
            one["entity"].sort(key=str)
            one.get("values", []).sort(key=str)
        if answer["entries"]:
            answer["entries"].sort(key=lambda one: str(one["entity"]))
    s.note(label, answer)


def alter(s: Session, label: str, *entries: dict[str, object], version: int = 1, validate_only: bool = False) -> None:
    answer = s.ask("alter_client_quotas", version, entries=list(entries), validate_only=validate_only)
    note(s, f"alter_client_quotas v{version} {label}", answer)


def describe(
    s: Session,
    label: str,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
    count: int | None = None,
) -> None:
    """Describe quotas. Kafka's brokers apply changes late: with a count, repeat until there are that many entries."""
    rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        answer = s.ask("describe_client_quotas", version, components=rows, strict=strict)
        entries = answer["entries"] if isinstance(answer, dict) else None
        if count is None or (entries is not None and len(entries) == count) or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    note(s, f"describe_client_quotas v{version} {label}", answer)


def settle(s: Session) -> None:
    """Wait until the broker has applied all changes so far."""
    last = s.name("last")
    s.ask("alter_client_quotas", 1, entries=[entry({"user": last}, ("producer_byte_rate", 1))], validate_only=False)
    rows = [{"entity_type": "user", "match_type": EXACT, "match": last}]

    def is_heard_of() -> bool:
        answer = s.ask("describe_client_quotas", 1, components=rows, strict=False)
        return isinstance(answer, dict) and len(answer["entries"]) == 1

    eventually(is_heard_of)
    s.ask("alter_client_quotas", 1, entries=[entry({"user": last}, ("producer_byte_rate", None))], validate_only=False)


@scenario
def quotas_are_set_and_found(s: Session) -> None:
    user, client = s.name("u"), s.name("c")
    for version in (0, 1):
        alter(s, "set", entry({"user": user}, ("producer_byte_rate", 1e6)), version=version)
        alter(s, "again", entry({"user": user}, ("producer_byte_rate", 1e6)), version=version)
        alter(s, "of both", entry({"user": user, "client-id": client}, ("consumer_byte_rate", 5e5)), version=version)
        alter(s, "of the default client", entry({"user": user, "client-id": None}, ("request_percentage", 12.5)))
        describe(s, "of the user", ("user", EXACT, user), version=version, count=3)
        describe(s, "of the user, strictly", ("user", EXACT, user), strict=True, version=version)
        describe(s, "of both", ("user", EXACT, user), ("client-id", EXACT, client), version=version)
        describe(s, "of the default client", ("user", EXACT, user), ("client-id", DEFAULT, None))
        describe(s, "of a client of theirs", ("client-id", EXACT, client), version=version)
        describe(s, "of nobody", ("user", EXACT, s.name("nobody")), version=version)
        alter(s, "only tried", entry({"user": user}, ("producer_byte_rate", 7)), validate_only=True)
        describe(s, "after only trying", ("user", EXACT, user), strict=True)
        theirs: list[Entity] = [{"user": user}, {"user": user, "client-id": client}, {"user": user, "client-id": None}]
        for entity in theirs:
            keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
            alter(s, "remove", entry(entity, *((key, None) for key in keys)), version=version)
        describe(s, "when all are gone", ("user", EXACT, user), version=version, count=0)


@scenario
def quotas_of_addresses(s: Session) -> None:
    alter(s, "set", entry({"ip": "10.9.8.7"}, ("connection_creation_rate", 100)))
    describe(s, "of the address", ("ip", EXACT, "10.9.8.7"), count=1)
    describe(s, "of any address", ("ip", SPECIFIED, None))
    alter(s, "a fraction", entry({"ip": "10.9.8.7"}, ("connection_creation_rate", 1.5)))
    alter(s, "too many", entry({"ip": "10.9.8.7"}, ("connection_creation_rate", 3e9)))
    alter(s, "with a key of clients", entry({"ip": "10.9.8.7"}, ("producer_byte_rate", 1)))
    alter(s, "of a name that nobody knows", entry({"ip": "no.such.host.invalid"}, ("connection_creation_rate", 1)))
    alter(s, "with a user", entry({"ip": "10.9.8.7", "user": "u"}, ("connection_creation_rate", 1)))
    alter(s, "remove", entry({"ip": "10.9.8.7"}, ("connection_creation_rate", None)))


@scenario
def bad_changes_of_quotas(s: Session) -> None:
    user = s.name("u")
    for value in (0.0001, 0.5, 1.5, 1e18, 1e19, -1.0):
        alter(s, f"bytes {value}", entry({"user": user}, ("producer_byte_rate", value)))
        alter(s, f"percent {value}", entry({"user": user}, ("request_percentage", value)))
    zero = {"key": "producer_byte_rate", "value": 0.0, "remove": False}
    alter(s, "zero", {**entry({"user": user}), "ops": [zero]})
    alter(s, "an unknown key", entry({"user": user}, ("no_such_quota", 1)))
    alter(s, "remove an unknown key", entry({"user": user}, ("no_such_quota", None)))
    alter(s, "a key of addresses", entry({"user": user}, ("connection_creation_rate", 1)))
    alter(s, "an unknown type", entry({"group": "g"}, ("producer_byte_rate", 1)))
    alter(s, "an empty type", entry({"": "g"}, ("producer_byte_rate", 1)))
    alter(s, "an empty name", entry({"user": ""}, ("producer_byte_rate", 1)))
    alter(s, "nobody", entry({}, ("producer_byte_rate", 1)))
    alter(s, "nothing", entry({"user": user}))
    alter(s, "nobody at all")
    twice = (("producer_byte_rate", 1), ("producer_byte_rate", 2))
    alter(s, "a key twice", entry({"user": user}, *twice))
    alter(s, "an entity twice", *(entry({"user": user}, ("producer_byte_rate", value)) for value in (3, 4)))
    settle(s)
    describe(s, "what is left", ("user", EXACT, user))
    both = (("producer_byte_rate", 5), ("no_such_quota", 1))
    alter(s, "one good and one bad key", entry({"user": user}, *both))
    good, bad = entry({"user": user}, ("producer_byte_rate", 6)), entry({"ip": "x"}, both[0])
    alter(s, "one good and one bad entity", good, bad)
    settle(s)
    describe(s, "what is left now", ("user", EXACT, user))
    alter(s, "remove", entry({"user": user}, ("producer_byte_rate", None), ("request_percentage", None)))


@scenario
def bad_filters_of_quotas(s: Session) -> None:
    describe(s, "nothing, strictly", strict=True)
    describe(s, "an empty type", ("", EXACT, "x"))
    describe(s, "an unknown type", ("group", EXACT, "x"))
    describe(s, "an unknown match", ("user", 3, "x"))
    describe(s, "a type twice", ("user", EXACT, "x"), ("user", DEFAULT, None))
    describe(s, "exactly null", ("user", EXACT, None))
    describe(s, "the default with a name", ("user", DEFAULT, "x"))
    describe(s, "any with a name", ("user", SPECIFIED, "x"))
    describe(s, "an address and a user", ("ip", SPECIFIED, None), ("user", SPECIFIED, None))


@scenario
def changes_of_topics_over_the_quota(s: Session) -> None:
    """Exhaust the bucket of eleven seconds: at 1 per second, 20 partitions empty it and the next change is rejected.

    A throttled client is muted, so every request uses its own connection.
    """

    def once(api: str, version: int, label: str, **values: Any) -> None:
        s.hang_up()
        s.call(api, version, label, timeout=REQUEST_MS_MAX, **values)

    def limit(rate: float | None) -> None:
        s.hang_up()
        alter(s, f"at {rate}", entry({"user": None}, ("controller_mutation_rate", rate)))
        describe(s, f"at {rate}", ("user", DEFAULT, None), strict=True, count=int(rate is not None))

    def topic(text: str, partitions: int) -> dict[str, Any]:
        return {"name": s.name(text), "num_partitions": partitions, "replication_factor": 1}

    limit(1.0)
    once("create_topics", 7, "large", topics=[topic("large", 20)])
    once("create_topics", 7, "refused", topics=[topic("refused", 1), topic("refused too", 1)])
    more = {"name": s.name("large"), "count": 21, "assignments": None}
    once("create_partitions", 3, "refused", topics=[more], validate_only=False)
    once("delete_topics", 5, "refused", topic_names=[s.name("large")])
    once("create_topics", 5, "only slowed down", topics=[topic("old", 1)])
    limit(None)
    for text in ("large", "old"):
        once("delete_topics", 6, "free again", topics=[{"name": s.name(text), "topic_id": None}])
