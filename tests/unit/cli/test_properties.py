import pytest

from penstock.cli.errors import CommandError
from penstock.cli.properties import parse_properties


def test_a_kafka_file_is_read() -> None:
    text = """
# The id of the broker
node.id=1
   listeners = PLAINTEXT://:9092
! another comment
log.dirs: /var/lib/penstock
controller.quorum.voters=1@a:9093,\\
    2@b:9093
empty=
path=C\\:\\\\data
num.partitions 3"""
    assert parse_properties(text) == {
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/var/lib/penstock",
        "controller.quorum.voters": "1@a:9093,2@b:9093",
        "empty": "",
        "path": "C:\\data",
        "num.partitions": "3",
    }


def test_a_continuation_at_the_end_of_the_file_is_not_lost() -> None:
    assert parse_properties("a=b\\") == {"a": "b"}


def test_a_value_without_a_name_is_refused() -> None:
    with pytest.raises(CommandError, match="line 2 '=7' has no name"):
        parse_properties("a=b\n=7")
