"""The security of a node: what each listener requires, and how this node connects to others.

Built once by node.py from the settings. Refuses with StartupError, in one line that says what to do.
"""

import logging
from random import Random
from typing import TYPE_CHECKING

from penstock.client.login import SecuredDialer, StartLogin
from penstock.config.broker_security import OAUTHBEARER
from penstock.config.listeners import (
    ListenerConfig,
    controller_listener,
    controller_listener_names,
    inter_broker_listener,
    listener_config,
    listener_names,
    node_listener_names,
)
from penstock.config.settings import BrokerSettings
from penstock.metadata.records import BrokerEndpoint, UserScramCredentialRecord
from penstock.model.errors import InvalidConfig, StartupError
from penstock.ports.clock import Clock
from penstock.ports.network import Network, TlsError, TlsSettings
from penstock.security.bootstrap import parse_first_users
from penstock.security.mechanisms import Credentials, ServerMechanisms, own_login, own_user
from penstock.security.names import InvalidCertificate, map_name, parse_rules, subject_of
from penstock.security.principal import Principal, parse_principals, user
from penstock.security.scram import MECHANISM_IDS
from penstock.security.tls import client_tls, server_tls
from penstock.server.authentication import FailureDelays, ListenerSecurity, load_codecs
from penstock.server.listener import Server
from penstock.server.token_keys import TokenKeys

if TYPE_CHECKING:
    from penstock.handlers.support.context import Endpoint
    from penstock.metadata.image import BrokerImage
    from penstock.metrics.metrics import Metrics
    from penstock.ports.documents import Documents

log = logging.getLogger(__name__)

PLAINTEXT_ID = 0
_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"


class NodeSecurity:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        client_id: str,
        documents: "Documents | None",
    ) -> None:
        self._settings = settings
        self._network = network
        self._clock = clock
        self._random = random
        self._client_id = client_id
        self._documents = documents
        self._listeners = {name: listener_config(settings, name) for name in listener_names(settings)}
        self._token_keys: dict[str, TokenKeys] = {}
        self._tls = {name: server_tls(listener) for name, listener in self._listeners.items()}

    def tls_of(self, name: str) -> TlsSettings | None:
        """Return how a listener uses TLS; None if it does not."""
        return self._tls[name]

    def end_point(self, endpoint: "Endpoint") -> BrokerEndpoint:
        """Return the registration of an endpoint."""
        protocol_id = self._listeners[endpoint.listener].protocol_id
        return BrokerEndpoint(
            name=endpoint.listener, host=endpoint.host, port=endpoint.port, security_protocol=protocol_id
        )

    def inter_broker_address(self, broker: "BrokerImage") -> tuple[str, int] | None:
        """Return the address of another broker: its inter-broker listener, or the first that it has registered."""
        name = inter_broker_listener(self._settings)
        end_point = None if name is None else broker.end_point(name)
        if end_point is None and broker.end_points[0].security_protocol == PLAINTEXT_ID:
            end_point = broker.end_points[0]
        return None if end_point is None else (end_point.host, end_point.port)

    async def start(self) -> None:
        """Load the keys of tokens, and what the first login needs."""
        for name, listener in self._listeners.items():
            if listener.is_sasl and OAUTHBEARER in listener.get("sasl.enabled.mechanisms"):
                if self._documents is None:
                    raise StartupError("OAUTHBEARER needs files or web servers, which this node cannot read")
                self._token_keys[name] = keys = TokenKeys(listener, self._documents, self._clock)
                await keys.start()
        if any(listener.is_sasl for listener in self._listeners.values()):
            load_codecs()

    def stop(self) -> None:
        for keys in self._token_keys.values():
            keys.stop()

    def renew_certificates(self, settings: BrokerSettings, server: Server) -> None:
        """Apply changed TLS options to new connections; a listener keeps its certificate if the new one is bad."""
        for name in self._listeners:
            tls = server_tls(listener_config(settings, name))
            if tls is None or tls == self._tls[name]:
                continue
            self._tls[name] = tls
            try:
                server.renew(name, tls)
            except TlsError as problem:
                log.error("the listener %s keeps its present certificate: %s", name, problem)

    # -- clients -----------------------------------------------------------------------------

    def build_listeners(self, metrics: "Metrics", credentials: Credentials) -> dict[str, ListenerSecurity]:
        """Return what each listener requires of its clients."""
        delays = FailureDelays(self._clock)
        for_nodes = node_listener_names(self._settings)
        try:
            trusted = self._node_principals(for_nodes)
            return {
                name: ListenerSecurity(
                    listener,
                    clock=self._clock,
                    metrics=metrics,
                    delays=delays,
                    mechanisms=self._mechanisms(listener, credentials),
                    rules=parse_rules(listener.get("ssl.principal.mapping.rules")),
                    is_for_nodes=name in for_nodes,
                    node_principals=trusted,
                )
                for name, listener in self._listeners.items()
            }
        except (InvalidConfig, InvalidCertificate, TlsError) as problem:
            raise StartupError(str(problem)) from None

    def _mechanisms(self, listener: ListenerConfig, credentials: Credentials) -> ServerMechanisms | None:
        if not listener.is_sasl:
            return None
        keys = self._token_keys.get(listener.name)
        return ServerMechanisms(
            listener,
            credentials=credentials,
            random=self._random,
            verify_token=None if keys is None else keys.verify,
        )

    def _node_principals(self, names: frozenset[str]) -> frozenset[Principal]:
        """Return the principals that may act as nodes: super users, and the one that this node itself has."""
        found = set(parse_principals(self._settings.text("super.users")))
        for name in names:
            listener = listener_config(self._settings, name)
            if listener.is_sasl:
                for option in (_BROKER_MECHANISM, _CONTROLLER_MECHANISM):
                    own = own_user(listener, self._settings.text(option))
                    found |= set() if own is None else {user(own)}
            elif listener.authenticates:
                tls = server_tls(listener)
                certificate = None if tls is None else self._network.own_certificate(tls)
                if certificate is not None:
                    rules = parse_rules(listener.get("ssl.principal.mapping.rules"))
                    found.add(user(map_name(rules, subject_of(certificate))))
        return frozenset(found)

    # -- other nodes -------------------------------------------------------------------------

    def broker_dialer(self) -> SecuredDialer:
        """Return the dialer for connections to other brokers."""
        return self._dialer(inter_broker_listener(self._settings), _BROKER_MECHANISM)

    def controller_dialer(self) -> SecuredDialer:
        """Return the dialer for connections to controllers."""
        option = _CONTROLLER_MECHANISM if controller_listener_names(self._settings) else _BROKER_MECHANISM
        return self._dialer(controller_listener(self._settings), option)

    def _dialer(self, name: str | None, mechanism_option: str) -> SecuredDialer:
        listener = None if name is None else listener_config(self._settings, name)
        mechanism = self._settings.text(mechanism_option) if listener is not None and listener.is_sasl else None
        return SecuredDialer(
            self._network,
            self._clock,
            client_id=self._client_id,
            tls=None if listener is None else client_tls(listener),
            mechanism=mechanism,
            start_login=None if listener is None or mechanism is None else self._login(listener, mechanism),
        )

    def _login(self, listener: ListenerConfig, mechanism: str) -> StartLogin:
        return lambda: own_login(listener, mechanism, self._random)


def first_credentials(settings: BrokerSettings) -> list[UserScramCredentialRecord]:
    """Return the users of a new cluster."""
    try:
        users = parse_first_users(settings["bootstrap.scram.credentials"] or "")
    except InvalidConfig as problem:
        raise StartupError(problem.message) from None
    return [
        UserScramCredentialRecord(
            name=each.name,
            mechanism=MECHANISM_IDS[each.mechanism],
            salt=each.credential.salt,
            stored_key=each.credential.stored_key,
            server_key=each.credential.server_key,
            iterations=each.credential.iterations,
        )
        for each in users
    ]
