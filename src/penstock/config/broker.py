"""Every option of a broker by its name, gathered from the tables beside this file.

Owns nothing but the gathering. What Kafka has besides is in foreign.py.
"""

from collections.abc import Mapping
from typing import Final

from penstock.config.broker_groups import COORDINATOR_OPTIONS
from penstock.config.broker_node import NODE_OPTIONS
from penstock.config.broker_storage import STORAGE_OPTIONS
from penstock.config.option import Option
from penstock.config.topic import TOPIC_OPTIONS

BROKER: Final[Mapping[str, Option]] = {
    option.name: option
    for table in (NODE_OPTIONS, STORAGE_OPTIONS, TOPIC_OPTIONS, COORDINATOR_OPTIONS)
    for option in table
    if option.at_broker
}
