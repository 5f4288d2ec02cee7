"""The names of all topics and groups, in a short time: for completion and suggestions."""

from typing import Final

from penstock.actions.connection import Connection
from penstock.actions.librdkafka import client_config

TIMEOUT_S: Final = 3.0


def topic_names(connection: Connection) -> list[str]:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(client_config(connection))
    return sorted(admin.list_topics(timeout=TIMEOUT_S).topics)


def group_names(connection: Connection) -> list[str]:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(client_config(connection))
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    return sorted(str(each.group_id) for each in listed.valid or [])
