"""IncrementalAlterConfigs through its handler."""

import logging

import pytest

from penstock.metadata.image import BROKER, BROKER_LOGGER, TOPIC
from penstock.model.errors import StorageError
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import APPEND, DELETE, SET, alter_config, describe_config, node_with_orders


async def test_a_changed_setting_is_described_with_its_new_value(node: FakeNode) -> None:
    assert (await alter_config(node, TOPIC, "orders", ("retention.ms", SET, "77"))).error_code == 0
    option = (await describe_config(node, TOPIC, "orders", "retention.ms")).configs[0]
    assert (option.value, option.config_source) == ("77", 1)
    await alter_config(node, TOPIC, "orders", ("retention.ms", DELETE, None))
    option = (await describe_config(node, TOPIC, "orders", "retention.ms")).configs[0]
    assert (option.value, option.config_source) == ("604800000", 5)


@pytest.fixture
def node() -> FakeNode:
    return node_with_orders({"num.partitions": "4"})


async def test_validate_only_changes_nothing(node: FakeNode) -> None:
    before = node.image
    assert (await alter_config(node, TOPIC, "orders", ("retention.ms", SET, "77"), validate_only=True)).error_code == 0
    assert node.image is before


async def test_a_refused_change_has_a_message(node: FakeNode) -> None:
    result = await alter_config(node, BROKER, "1", ("num.partitions", SET, "5"))
    assert (result.error_code, result.error_message) == (
        42,
        "Cannot update these configs dynamically: [num.partitions]",
    )


async def test_the_level_of_a_logger_changes_in_this_process(node: FakeNode) -> None:
    logger = logging.getLogger("penstock.test.handlers")
    try:
        assert (
            await alter_config(node, BROKER_LOGGER, "1", (logger.name, SET, "ERROR"), validate_only=True)
        ).error_code == 0
        assert logger.level == logging.NOTSET
        assert (await alter_config(node, BROKER_LOGGER, "1", (logger.name, SET, "ERROR"))).error_code == 0
        option = (await describe_config(node, BROKER_LOGGER, "1", logger.name)).configs[0]
        assert (option.value, option.config_source, option.config_type) == ("ERROR", 6, 0)
    finally:
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("7", ("root", SET, "INFO"), 42, "Unexpected node id. Expected 1, but received 7"),
        ("", ("root", SET, "INFO"), 42, "Node id must be an integer, but it is: "),
        ("1", ("root", APPEND, "INFO"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("1", ("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
        ("1", ("root", SET, None), 42, "Null value not supported for : root"),
        ("1", ("nope", SET, "INFO"), 40, "Logger nope does not exist!"),
    ],
)
async def test_an_invalid_change_of_loggers_is_refused(
    node: FakeNode, name: str, change: tuple[str, int, str | None], code: int, message: str
) -> None:
    result = await alter_config(node, BROKER_LOGGER, name, change)
    assert (result.error_code, result.error_message) == (code, message)


async def test_a_controller_that_cannot_commit_refuses_every_resource_but_loggers(node: FakeNode) -> None:
    node.quorum.refusal = StorageError("the disk is full")
    result = await alter_config(node, TOPIC, "orders", ("retention.ms", SET, "77"))
    assert (result.error_code, result.error_message, result.resource_name) == (56, "the disk is full", "orders")
    node.quorum.is_active = False
    assert (await alter_config(node, TOPIC, "orders", ("retention.ms", SET, "77"))).error_code == 41
    # The levels of loggers belong to this process: no controller is needed.
    assert (await alter_config(node, BROKER_LOGGER, "1", ("root", SET, "INFO"), validate_only=True)).error_code == 0


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("nope", SET, "1"), 40, "Unknown topic config name: nope"),
        (("retention.ms", APPEND, "1"), 40, "Can't APPEND to key retention.ms because its type is not LIST."),
        (("retention.ms", 9, "1"), 42, "Unknown operation type 9"),
    ],
)
async def test_an_operation_that_does_not_fit_its_setting_is_refused(
    node: FakeNode, change: tuple[str, int, str | None], code: int, message: str
) -> None:
    result = await alter_config(node, TOPIC, "orders", change)
    assert (result.error_code, result.error_message) == (code, message)


async def test_lists_are_appended_to_and_subtracted_from(node: FakeNode) -> None:
    await alter_config(node, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    option = (await describe_config(node, TOPIC, "orders", "cleanup.policy")).configs[0]
    assert option.value == "delete,compact"
    await alter_config(node, TOPIC, "orders", ("cleanup.policy", 3, "delete"))
    option = (await describe_config(node, TOPIC, "orders", "cleanup.policy")).configs[0]
    assert option.value == "compact"
