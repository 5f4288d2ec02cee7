"""The names of all topics and groups, in a short time: for completion and suggestions."""

from typing import Final

from penstock.actions.connection import Connection
from penstock.actions.librdkafka import open_admin

TIMEOUT_S: Final = 3.0


def topic_names(connection: Connection) -> list[str]:
    return sorted(open_admin(connection).list_topics(timeout=TIMEOUT_S).topics)


def group_names(connection: Connection) -> list[str]:
    admin = open_admin(connection)
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    return sorted(str(each.group_id) for each in listed.valid or [])
