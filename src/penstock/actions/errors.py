"""The error that every action raises, and its codes."""

from collections.abc import Sequence
from typing import Final

from penstock.model.errors import PenstockError

# Codes are the names of librdkafka's errors, plus these for failures that no broker reports.
UNKNOWN_TOPIC: Final = "UNKNOWN_TOPIC_OR_PART"
UNKNOWN_GROUP: Final = "GROUP_ID_NOT_FOUND"
UNKNOWN_SHARE_GROUP: Final = "UNKNOWN_SHARE_GROUP"
UNKNOWN_NODE: Final = "UNKNOWN_NODE"
UNKNOWN_USER: Final = "UNKNOWN_USER"
UNKNOWN_HOST: Final = "UNKNOWN_HOST"
CONNECTION_REFUSED: Final = "CONNECTION_REFUSED"
TIMED_OUT: Final = "_TIMED_OUT"
TRANSPORT: Final = "_TRANSPORT"


class ActionError(PenstockError):
    """An action that failed. The message says what failed and why; `code` lets a front end add the next step.

    `about` names the topic, group or user, if the message is about one. `suggestion` is a sentence with similar names.
    """

    def __init__(self, message: str, *, code: str = "", about: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.about = about
        self.suggestion = ""


class ActionErrors(ActionError):
    """Several failures of one action, for example one per topic."""

    def __init__(self, errors: Sequence[ActionError]) -> None:
        super().__init__(" | ".join(str(error) for error in errors))
        self.errors = tuple(errors)


def unknown_topic(name: str) -> ActionError:
    return ActionError(f"Topic '{name}' does not exist.", code=UNKNOWN_TOPIC, about=name)


def unknown_partition(topic: str, index: int, count: int) -> ActionError:
    return ActionError(f"Topic '{topic}' has no partition {index}: its partitions are 0 to {count - 1}.")


def unknown_node(node_id: int) -> ActionError:
    return ActionError(f"Node {node_id} does not exist.", code=UNKNOWN_NODE)
