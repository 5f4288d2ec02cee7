"""Client settings, and the cluster connection that is built from them.

The names are those of Kafka's clients. An unknown setting raises PenstockClientError, which names the closest known
one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from penstock_client.errors import PenstockClientError, nearest
from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.cluster_cache import cached_cluster, close_idle_cluster

CLIENT_SETTINGS: Final = (
    "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password",
    "ssl.truststore.location", "ssl.ca.location", "ssl.keystore.location", "ssl.certificate.location",
    "ssl.key.location", "ssl.key.password", "ssl.endpoint.identification.algorithm", "isolation.level", "group.id",
    "compression.type", "transaction.timeout.ms", "request.timeout.ms", "max.partition.fetch.bytes", "fetch.max.bytes",
    "max.request.size", "batch.size",
)  # fmt: skip
# Settings of the Java client that have no effect here, accepted so that a working set of options can be reused.
_WITHOUT_EFFECT: Final = frozenset({
    "acks", "enable.idempotence", "linger.ms", "buffer.memory", "retries", "delivery.timeout.ms", "client.id",
    "fetch.min.bytes", "fetch.max.wait.ms", "max.poll.records", "session.timeout.ms",
    "max.in.flight.requests.per.connection", "ssl.truststore.type", "ssl.truststore.password",
    "ssl.keystore.type", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols",
    "client.dns.lookup", "retry.backoff.ms", "max.block.ms", "metadata.max.age.ms",
    "receive.buffer.bytes", "send.buffer.bytes", "default.api.timeout.ms",
})  # fmt: skip
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The address of a cluster, the security settings and the time limits of its requests."""

    bootstrap: str
    settings: Mapping[str, str]
    deadline_s: float = 60.0
    request_timeout_s: float = 30.0

    def cluster(self) -> Cluster:
        return Cluster(self.bootstrap, self.settings, self.deadline_s, self.request_timeout_s)

    def cached_cluster(self) -> AbstractContextManager[Cluster]:
        """Return a cluster whose connections stay open for the next user in this process."""
        return cached_cluster(self._key, self.cluster)

    def close_idle(self) -> None:
        """Close the connections that stay open for the next user."""
        close_idle_cluster(self._key)

    @property
    def _key(self) -> Hashable:
        return (self.bootstrap, *sorted(self.settings.items()), self.deadline_s)


def connection_options(settings: Mapping[str, str], *, deadline_s: float = 60.0, prefix: str = "") -> ConnectionOptions:
    """Return the connection options in a client's settings. Raises PenstockClientError.

    `prefix` is the prefix that users write before client settings; error messages include it.
    """
    for name in settings:
        if name not in CLIENT_SETTINGS and name not in _WITHOUT_EFFECT:
            known = [f"{prefix}{each}" for each in CLIENT_SETTINGS]
            raise PenstockClientError(f"there is no client setting '{prefix}{name}'.{nearest(prefix + name, known)}")
    bootstrap = settings.get("bootstrap.servers")
    if not bootstrap:
        raise PenstockClientError(f"{prefix}bootstrap.servers is missing: name the brokers as host:port,host:port")
    security = {name: value for name, value in settings.items() if name.startswith(("security.", "sasl.", "ssl."))}
    protocol = security.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise PenstockClientError(f"{prefix}security.protocol {protocol!r} is not one of {', '.join(_PROTOCOLS)}")
    return ConnectionOptions(bootstrap, security, deadline_s, int(settings.get("request.timeout.ms", 30_000)) / 1000)
