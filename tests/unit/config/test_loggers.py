"""Tests of the translation between Kafka's and Python's log levels."""

import logging
from collections.abc import Iterator

import pytest

from penstock.config.loggers import check_level, level_of, logger_names, set_level
from penstock.model.errors import InvalidConfig, InvalidRequest


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("penstock.test.loggers")
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("word", "number"), [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)]
)
def test_a_level_is_set_and_returned_under_the_same_name(logger: logging.Logger, word: str, number: int) -> None:
    set_level(logger.name, word)
    assert logger.level == number
    assert level_of(logger.name) == word


def test_a_logger_without_a_level_inherits_that_of_its_parent(logger: logging.Logger) -> None:
    set_level(logger.name, "ERROR")
    set_level(logger.name, None)
    assert level_of(logger.name) == level_of("root")
    assert logger_names()[0] == "root"
    assert logger.name in logger_names()


def test_an_unknown_level_or_logger_is_rejected(logger: logging.Logger) -> None:
    with pytest.raises(InvalidConfig, match="Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"):
        check_level(logger.name, "NOPE")
    with pytest.raises(InvalidConfig, match="Logger nope does not exist!"):
        check_level("nope", "INFO")
    with pytest.raises(InvalidRequest, match="Removing the log level of the root logger is not allowed"):
        check_level("root", None)
