"""Topics and partitions, as described by some node of a cluster while others are killed.

librdkafka binds a metadata request to one broker. If that broker dies before the request is sent, the request is
retried there until it times out, although other brokers are connected (its debug log shows "Retrying MetadataRequest"
for the dead broker alone). So each request has a short timeout here, and is followed by another, which goes to a
connected broker.
"""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

REQUEST_S_MAX = 2.0


def cluster_metadata(admin: AdminClient, topic: str | None = None, *, seconds_max: float = 60.0) -> ClusterMetadata:
    """Describe a topic, or all of them."""
    deadline = time.monotonic() + seconds_max
    named = {} if topic is None else {"topic": topic}
    while True:
        try:
            return admin.list_topics(**named, timeout=REQUEST_S_MAX)
        except KafkaException as error:
            is_lost = error.args[0].code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
            if not is_lost or time.monotonic() > deadline:
                raise
