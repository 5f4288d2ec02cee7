"""The listeners of a node: their protocols, and the options that apply to each.

Pure. `check_security` is called for a whole configuration by settings.py; the contents of key stores and JAAS texts
are checked where they are used. Refuses with InvalidConfig, which says what to set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.broker_security import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN
from penstock.model.errors import InvalidConfig

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""In the order of their numbers in registrations."""
MECHANISM_PREFIXES: Final = frozenset(name.lower() for name in (*MECHANISMS, GSSAPI))


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener with its protocol and its options."""

    name: str
    protocol: str
    values: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def is_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def protocol_id(self) -> int:
        return PROTOCOLS.index(self.protocol)

    @property
    def client_auth(self) -> str:
        """Return whether clients need certificates. On SASL_SSL only an option with the listener's prefix counts."""
        own = self._own("ssl.client.auth")
        return str(own if own is not None else "none" if self.is_sasl else self.values["ssl.client.auth"])

    @property
    def authenticates(self) -> bool:
        """Return whether every client of this listener has proved its identity."""
        return self.is_sasl or (self.protocol == SSL and self.client_auth == "required")

    def get(self, option: str, mechanism: str | None = None) -> Any:
        """Return an option of this listener, and of a mechanism on it."""
        if mechanism is not None:
            value = self._own(f"{mechanism.lower()}.{option}")
            if value is not None:
                return value
        value = self._own(option)
        return self.values[option] if value is None else value

    def _own(self, option: str) -> Any:
        return self.values.get(f"listener.name.{self.name.lower()}.{option}")


def listener_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the listeners that this node binds."""
    return [entry.partition("://")[0].upper() for entry in settings["listeners"] or ()]


def listener_config(settings: Mapping[str, Any], name: str) -> ListenerConfig:
    """Return a listener of this node or of another: all nodes give a listener the same name and protocol."""
    return ListenerConfig(name.upper(), protocol_map(settings).get(name.upper(), PLAINTEXT), settings)


def protocol_map(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the protocol of each listener name in listener.security.protocol.map."""
    found: dict[str, str] = {}
    text = str(settings["listener.security.protocol.map"] or "")
    for pair in text.split(","):
        name, _, protocol = (word.strip().upper() for word in pair.partition(":"))
        if not pair.strip():
            continue
        if protocol not in PROTOCOLS:
            raise InvalidConfig(
                f"listener.security.protocol.map gives {name or pair.strip()} the protocol '{protocol}': use one of "
                f"{', '.join(PROTOCOLS)}"
            )
        found[name] = protocol
    return found


def inter_broker_listener(settings: Mapping[str, Any]) -> str | None:
    """Return the listener with which this node connects to brokers; None if no listener has the protocol."""
    named = settings["inter.broker.listener.name"]
    if named is not None:
        return str(named).upper()
    protocol, protocols = settings["security.inter.broker.protocol"], protocol_map(settings)
    used = [name for name in listener_names(settings) if name not in controller_listener_names(settings)]
    return next((name for name in used if protocols.get(name, PLAINTEXT) == protocol), None)


def controller_listener_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the listeners that are only for controllers."""
    return [name.upper() for name in settings["controller.listener.names"]]


def controller_listener(settings: Mapping[str, Any]) -> str | None:
    """Return the listener with which this node connects to controllers."""
    return next(iter(controller_listener_names(settings)), None) or inter_broker_listener(settings)


def node_listener_names(settings: Mapping[str, Any]) -> frozenset[str]:
    """Return the listeners on which other nodes may connect."""
    named = {*controller_listener_names(settings), *(name.upper() for name in settings["node.listener.names"])}
    if settings["inter.broker.listener.name"] is not None:
        return frozenset({*named, str(settings["inter.broker.listener.name"]).upper()})
    protocol, protocols = settings["security.inter.broker.protocol"], protocol_map(settings)
    return frozenset({*named, *(n for n in listener_names(settings) if protocols.get(n, PLAINTEXT) == protocol)})


def check_security(settings: Mapping[str, Any]) -> None:
    """Check the protocols and the options of every listener of this node."""
    protocols = protocol_map(settings)
    names = listener_names(settings)
    listeners = [listener_config(settings, name) for name in names]
    if any(listener.protocol != PLAINTEXT for listener in listeners):
        for name in names:
            if name not in protocols:
                raise InvalidConfig(
                    f"The listener {name} has no security protocol: add {name}:PLAINTEXT, or the protocol that it "
                    "should have, to listener.security.protocol.map"
                )
    for listener in listeners:
        if listener.is_tls:
            _check_tls(listener)
        if listener.is_sasl:
            _check_sasl(listener)
    _check_between_nodes(settings, names)


def _check_tls(listener: ListenerConfig) -> None:
    location, key = listener.get("ssl.keystore.location"), listener.get("ssl.keystore.key")
    if location is None and key is None:
        raise InvalidConfig(
            f"The listener {listener.name} has the protocol {listener.protocol} but no certificate: set "
            "ssl.keystore.location to a PEM or PKCS12 file, or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    if key is not None and listener.get("ssl.keystore.certificate.chain") is None:
        raise InvalidConfig("ssl.keystore.key is set without ssl.keystore.certificate.chain: set both")
    is_trusting = listener.get("ssl.truststore.location") or listener.get("ssl.truststore.certificates")
    if listener.client_auth != "none" and not is_trusting:
        raise InvalidConfig(
            f"ssl.client.auth is {listener.client_auth} on the listener {listener.name}, but no authority is trusted: "
            "set ssl.truststore.location or ssl.truststore.certificates"
        )


def _check_sasl(listener: ListenerConfig) -> None:
    for mechanism in listener.get("sasl.enabled.mechanisms"):
        if mechanism == PLAIN and listener.get("sasl.jaas.config", PLAIN) is None:
            raise InvalidConfig(
                f"The listener {listener.name} enables PLAIN but has no users: set listener.name."
                f"{listener.name.lower()}.plain.sasl.jaas.config"
            )
        if mechanism == OAUTHBEARER and listener.get("sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER) is None:
            raise InvalidConfig(
                f"The listener {listener.name} enables OAUTHBEARER but has no keys to verify tokens: set "
                "sasl.oauthbearer.jwks.endpoint.url"
            )


def _check_between_nodes(settings: Mapping[str, Any], names: list[str]) -> None:
    named = settings["inter.broker.listener.name"]
    is_broker = "broker" in settings["process.roles"]
    if is_broker and named is not None and str(named).upper() not in names:
        raise InvalidConfig(
            f"inter.broker.listener.name is {named}, which is none of the listeners: {', '.join(names)}"
        )
    is_clustered = settings["controller.quorum.voters"] or settings["controller.quorum.bootstrap.servers"]
    if is_clustered and is_broker and inter_broker_listener(settings) is None:
        raise InvalidConfig(
            f"No listener has the protocol {settings['security.inter.broker.protocol']} of "
            "security.inter.broker.protocol: set inter.broker.listener.name to the listener for other brokers"
        )
    for name, option in (
        (inter_broker_listener(settings), "sasl.mechanism.inter.broker.protocol"),
        (controller_listener(settings), "sasl.mechanism.controller.protocol"),
    ):
        if is_clustered and name is not None:
            _check_own_login(listener_config(settings, name), option)


def _check_own_login(listener: ListenerConfig, option: str) -> None:
    """Check that this node can log in at another one."""
    mechanism = listener.values[option]
    if listener.is_sasl and listener.get("sasl.jaas.config", mechanism) is None:
        raise InvalidConfig(
            f"This node cannot log in at other nodes on the listener {listener.name}: set listener.name."
            f"{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config with a username and a password"
        )
