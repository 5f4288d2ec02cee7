"""Every option of a broker by its name, gathered from the tables beside this file.

Owns nothing but the gathering, and the names of Kafka's options that mean nothing here:
those are accepted in a properties file, so that a file written for Kafka still works.
"""

from collections.abc import Mapping
from typing import Final

from penstock.config.option import Option
from penstock.config.storage import STORAGE_OPTIONS
from penstock.config.topic import TOPIC_OPTIONS

BROKER: Final[Mapping[str, Option]] = {
    option.name: option
    for table in (TOPIC_OPTIONS, STORAGE_OPTIONS)
    for option in table
    if option.at_broker
}

MEANINGLESS: Final[frozenset[str]] = frozenset()
