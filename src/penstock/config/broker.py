"""All broker options by name, collected from the tables in the modules beside this one.

Options of Kafka that Penstock does not implement are in foreign.py.
"""

from collections.abc import Mapping
from typing import Final

from penstock.config.broker_groups import COORDINATOR_OPTIONS
from penstock.config.broker_node import NODE_OPTIONS
from penstock.config.broker_security import SECURITY_OPTIONS
from penstock.config.broker_storage import STORAGE_OPTIONS
from penstock.config.option import Option
from penstock.config.topic import TOPIC_OPTIONS

BROKER: Final[Mapping[str, Option]] = {
    option.name: option
    for table in (NODE_OPTIONS, SECURITY_OPTIONS, STORAGE_OPTIONS, TOPIC_OPTIONS, COORDINATOR_OPTIONS)
    for option in table
    if option.at_broker
}
