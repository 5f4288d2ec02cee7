"""The names of all topics, groups and users: for completion and suggestions."""

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


def share_group_names(connection: Connection) -> list[str]:
    # Loading the schemas would delay the completion of topics.
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.queues import queue_names

    with open_cluster(connection) as cluster:
        return sorted(name for names in queue_names(cluster).values() for name in names)


def user_names(connection: Connection) -> list[str]:
    from penstock.actions.users import list_users

    return [user.name for user in list_users(connection)]


def token_ids(connection: Connection) -> list[str]:
    from penstock.actions.tokens import list_tokens

    return [token.id for token in list_tokens(connection)]
