"""The security of a node: what each listener requires, and how this node connects to others.

Built once by node.py from the settings. Refuses with StartupError, in one line that says what to do.
"""

import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from penstock.client.login import SecuredDialer, StartLogin
from penstock.config.broker_security import OAUTHBEARER, UNKNOWN_USERS_SECRET
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
from penstock.controller.credentials import secret_record
from penstock.metadata.records import BrokerEndpoint, MetadataRecord, UserScramCredentialRecord
from penstock.model.errors import InvalidConfig, StartupError
from penstock.ports.clock import Clock
from penstock.ports.network import Network, TlsError, TlsSettings
from penstock.ports.offload import Offload
from penstock.security.bootstrap import parse_first_users
from penstock.security.mechanisms import ServerMechanisms, own_login, own_user
from penstock.security.names import InvalidCertificate, map_name, parse_rules, subject_of
from penstock.security.principal import ANONYMOUS, Principal, parse_principals, user
from penstock.security.rights import Authorizer
from penstock.security.scram import MECHANISM_IDS
from penstock.security.tls import client_tls, server_tls
from penstock.security.tokens import TokenSecrets
from penstock.security.unknown_users import new_secret
from penstock.server.audit import Audit
from penstock.server.authentication import FailureDelays, ListenerSecurity, load_codecs
from penstock.server.listener import Server
from penstock.server.token_keys import TokenKeys

if TYPE_CHECKING:
    from penstock.client.interfaces import Peers
    from penstock.handlers.support.context import Context, Endpoint
    from penstock.metadata.delta import Delta
    from penstock.metadata.image import BrokerImage, Image
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
        offload: Offload | None,
    ) -> None:
        self._offload = offload
        self._settings = settings
        self._network = network
        self._clock = clock
        self._random = random
        self._client_id = client_id
        self._documents = documents
        self._listeners = {name: listener_config(settings, name) for name in listener_names(settings)}
        self._token_keys: dict[str, TokenKeys] = {}
        self._audit: Audit | None = None
        self.authorizer: Authorizer | None = None
        """Decides on the requests of clients; None if they may do everything. Created with the listeners."""
        key = settings["delegation.token.secret.key"]
        self.token_secrets = TokenSecrets(key) if key else None
        """The passwords of delegation tokens; None if tokens are disabled."""
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
        if self._audit is not None:
            self._audit.stop()
        for keys in self._token_keys.values():
            keys.stop()

    def settings_changed(self, settings: BrokerSettings, server: Server) -> None:
        """Apply changed TLS options to new connections; a listener keeps its certificate if the new one is bad."""
        self._settings = settings
        for name in self._listeners:
            tls = server_tls(listener_config(settings, name))
            if tls is None or tls == self._tls[name]:
                continue
            self._tls[name] = tls
            server.renew(name, tls, partial(_log_failed_renewal, name))

    # -- clients -----------------------------------------------------------------------------

    def build_listeners(self, metrics: "Metrics", image: "Callable[[], Image]") -> dict[str, ListenerSecurity]:
        """Return what each listener requires of its clients, and create the authorizer if one is configured."""
        delays = FailureDelays(self._clock)
        for_nodes = node_listener_names(self._settings)
        try:
            trusted = self._node_principals(for_nodes)
            self.authorizer = self._build_authorizer(for_nodes, trusted, metrics)
            return {
                name: ListenerSecurity(
                    listener,
                    clock=self._clock,
                    metrics=metrics,
                    delays=delays,
                    mechanisms=self._mechanisms(listener, image),
                    rules=parse_rules(listener.get("ssl.principal.mapping.rules")),
                    is_for_nodes=name in for_nodes,
                    node_principals=trusted,
                    authorizer=self.authorizer,
                )
                for name, listener in self._listeners.items()
            }
        except (InvalidConfig, InvalidCertificate, TlsError) as problem:
            raise StartupError(str(problem)) from None

    def _mechanisms(self, listener: ListenerConfig, image: "Callable[[], Image]") -> ServerMechanisms | None:
        if not listener.is_sasl:
            return None
        keys = self._token_keys.get(listener.name)
        return ServerMechanisms(
            listener,
            credentials=lambda: image().credentials,
            random=self._random,
            unknown_users_secret=lambda: self._settings[UNKNOWN_USERS_SECRET],
            tokens=lambda: image().tokens,
            token_secrets=self.token_secrets,
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

    def _build_authorizer(
        self, for_nodes: frozenset[str], super_users: frozenset[Principal], metrics: "Metrics"
    ) -> Authorizer | None:
        if not self._settings.text("authorizer.class.name"):
            return None
        for name in sorted(for_nodes & self._listeners.keys()):
            if not self._listeners[name].authenticates and ANONYMOUS not in super_users:
                log.warning(
                    "the listener %s authenticates nobody, so other nodes have no rights there: use SSL or SASL for "
                    "it, or add %s to super.users",
                    name,
                    ANONYMOUS,
                )
        is_audit = self._settings.text("authorizer.mode") == "audit"
        if is_audit:
            log.warning("authorizer.mode is audit: clients may do everything, and what ACLs would deny is recorded")
        self._audit = Audit(
            self._clock, metrics, is_enforced=not is_audit, to_topic=self._settings.flag("authorizer.audit.topic")
        )
        return Authorizer(
            super_users=super_users,
            if_no_acl=self._settings.flag("allow.everyone.if.no.acl.found"),
            is_audit=is_audit,
            reports_allowed=self._settings.flag("authorizer.audit.allowed"),
            on_decision=self._audit.note,
        )

    def start_audit(self, context: "Context", peers: "Peers") -> None:
        """Let the audit write to its topic."""
        if self._audit is not None:
            self._audit.start(context, peers)

    def acls_changed(self, delta: "Delta", image: "Image") -> None:
        """Apply the ACLs of a new image, and drop every verdict that they may change."""
        authorizer = self.authorizer
        if authorizer is None:
            return
        if not authorizer.is_loaded:
            authorizer.load(image.acls.values())
        elif delta.acls_changed:
            before = delta.before.acls
            authorizer.change(
                removed=[before[acl_id] for acl_id in delta.acls_changed if acl_id in before],
                added=[image.acls[acl_id] for acl_id in delta.acls_changed if acl_id in image.acls],
            )

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
            offload=self._offload,
        )

    def _login(self, listener: ListenerConfig, mechanism: str) -> StartLogin:
        return lambda: own_login(listener, mechanism, self._random)


def _log_failed_renewal(listener: str, problem: TlsError | None) -> None:
    if problem is not None:
        log.error("the listener %s keeps its present certificate: %s", listener, problem)


def first_credentials(settings: BrokerSettings, random: Random) -> list[MetadataRecord]:
    """Return the users of a new cluster, and the secret for unknown users."""
    try:
        users = parse_first_users(settings["bootstrap.scram.credentials"] or "")
    except InvalidConfig as problem:
        raise StartupError(problem.message) from None
    records: list[MetadataRecord] = [
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
    return [*records, secret_record(new_secret(random))] if records else []
