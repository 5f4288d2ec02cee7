"""Changes of quotas; tests/differential compares the error messages with Kafka's."""

import pytest

from penstock.controller.quotas import QuotaChanges, decide_alter_quotas
from penstock.metadata import delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import ClientQuotaRecord
from penstock.model.errors import PolicyViolation
from penstock.model.ids import LeaderEpoch, Offset
from penstock.quotas.entity import Entity

USER: Entity = (("user", "u"),)


def decide(image: Image, *requests: QuotaChanges, validate_only: bool = False) -> tuple[list[str | None], Image]:
    decision = decide_alter_quotas(image, requests, validate_only=validate_only)
    if decision.records:
        _, image = delta.apply(image, decision.records, offset=Offset(1), epoch=LeaderEpoch(1))
    return [None if result.refusal is None else result.refusal.message for result in decision.reply], image


def test_quotas_are_set_changed_and_removed() -> None:
    messages, image = decide(EMPTY, QuotaChanges(USER, (("producer_byte_rate", 10.0), ("request_percentage", 2.5))))
    assert messages == [None]
    assert image.quotas == {USER: {"producer_byte_rate": 10.0, "request_percentage": 2.5}}
    _, image = decide(image, QuotaChanges(USER, (("producer_byte_rate", None),)))
    assert image.quotas == {USER: {"request_percentage": 2.5}}
    _, image = decide(image, QuotaChanges(USER, (("request_percentage", None),)))
    assert image.quotas == {}


def test_only_changed_quotas_are_written() -> None:
    _, image = decide(EMPTY, QuotaChanges(USER, (("producer_byte_rate", 10.0),)))
    same = QuotaChanges(USER, (("producer_byte_rate", 10.0), ("consumer_byte_rate", None)))
    assert decide_alter_quotas(image, [same], validate_only=False).records == []


def test_a_refused_entity_does_not_affect_the_others() -> None:
    bad = QuotaChanges((("client-id", "c"),), (("producer_byte_rate", 10.0), ("no_such", 1.0)))
    messages, image = decide(EMPTY, bad, QuotaChanges(USER, (("producer_byte_rate", 1.0),)))
    assert messages == ["Invalid configuration key no_such", None]
    assert list(image.quotas) == [USER]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1.5, 2.0**64])
def test_an_invalid_value_changes_nothing(value: float) -> None:
    messages, image = decide(EMPTY, QuotaChanges(USER, (("consumer_byte_rate", value),)))
    assert messages != [None] and image is EMPTY


def test_validate_only_changes_nothing() -> None:
    messages, image = decide(EMPTY, QuotaChanges(USER, (("producer_byte_rate", 1.0),)), validate_only=True)
    assert messages == [None] and image is EMPTY


def test_the_number_of_quotas_per_request_is_limited() -> None:
    many = [QuotaChanges((("user", str(number)),), (("producer_byte_rate", 1.0),)) for number in range(10_001)]
    with pytest.raises(PolicyViolation):
        decide_alter_quotas(EMPTY, many, validate_only=False)


def test_the_record_contains_each_part_of_the_entity() -> None:
    both: Entity = (("client-id", None), ("user", "u"))
    [record] = decide_alter_quotas(
        EMPTY, [QuotaChanges(both, (("producer_byte_rate", 1.0),))], validate_only=False
    ).records
    assert isinstance(record, ClientQuotaRecord)
    assert [(part.entity_type, part.entity_name) for part in record.entity] == list(both)


RATE = (("producer_byte_rate", 1.0),)


@pytest.mark.parametrize(
    ("entity", "changes", "message"),
    [
        ((), RATE, "Invalid empty client quota entity"),
        ((("group", "g"),), RATE, "Unhandled client quota entity type: group"),
        ((("user", ""),), RATE, "Empty user not supported"),
        ((("ip", "10.0.0.1"), ("user", "u")), RATE, "Invalid quota entity combination, IP entity shouldnot be combined "
         "with User or ClientId"),
        ((("ip", "10.0.0.1"),), RATE, "Invalid configuration key producer_byte_rate"),
        ((("ip", "10.0.0.1"),), (("connection_creation_rate", 2.0**31),), "Proposed value for connection_creation_rate "
         "is too large for an INT."),
        (USER, RATE + RATE, "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"),
    ],
)  # fmt: skip
def test_a_change_that_makes_no_sense_is_refused_with_kafkas_message(
    entity: Entity, changes: tuple[tuple[str, float], ...], message: str
) -> None:
    assert decide(EMPTY, QuotaChanges(entity, changes)) == ([message], EMPTY)


@pytest.mark.parametrize("name", ("10.0.0.1", "::1", None))
def test_an_address_or_all_addresses_may_have_a_limit(name: str | None) -> None:
    messages, image = decide(EMPTY, QuotaChanges((("ip", name),), (("connection_creation_rate", 5.0),)))
    assert messages == [None] and image.quotas == {(("ip", name),): {"connection_creation_rate": 5.0}}


def test_an_entity_that_is_named_twice_is_refused() -> None:
    messages, _ = decide(EMPTY, QuotaChanges(USER, RATE), QuotaChanges(USER, RATE))
    assert messages == ["Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"]
