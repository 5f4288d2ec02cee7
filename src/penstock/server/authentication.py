"""Authentication of connections, before any request reaches the dispatcher.

`ListenerSecurity` belongs to one listener and wraps the session of each connection: on SASL listeners in a
`SaslSession`, which answers the requests before authentication and afterwards passes requests on; on TLS listeners
with client certificates in a `CertificateSession`. On plain-text listeners nothing is wrapped. The states are in
security/sasl.py. A failed authentication is answered and closed after a delay, longer for an address that fails often.
"""

import logging
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.config.listeners import ListenerConfig
from penstock.handlers.api_versions import is_refused
from penstock.metrics.metrics import Metrics
from penstock.model.errors import IllegalSaslState
from penstock.ports.clock import Clock, Timer
from penstock.ports.network import Connection, Session
from penstock.security.mechanisms import ServerMechanisms
from penstock.security.names import InvalidCertificate, MappingRule, map_name, subject_of
from penstock.security.principal import ANONYMOUS, Principal, user
from penstock.security.rights import Authorizer
from penstock.security.sasl import HandshakeReply, SaslServer, State, TokenReply, Verdict
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import Header, MalformedRequest, parse_header, response_head

if TYPE_CHECKING:
    from penstock.server.session import ClientSession

log = logging.getLogger(__name__)

AUTHENTICATION_S_MAX: Final = 30.0
"""How long a client may take to authenticate."""
FORGOTTEN_S: Final = 60.0
"""How long an address must not fail before its failures are forgotten."""
FAILURES_PER_STEP: Final = 5
DELAY_STEPS_MAX: Final = 6
"""The delay is doubled after every five failures, six times at most."""
ADDRESSES_MAX: Final = 10_000


class FailureDelays:
    """How long a failed authentication is delayed: longer for an address that fails often."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}

    def note(self, host: str) -> int:
        """Note a failure; return by how much its delay is multiplied."""
        now = self._clock.monotonic()
        count, last = self._failures.get(host, (0, now))
        count = 1 if now - last > FORGOTTEN_S else count + 1
        if len(self._failures) >= ADDRESSES_MAX:
            self._failures.clear()
        self._failures[host] = (count, now)
        return int(1 << min((count - 1) // FAILURES_PER_STEP, DELAY_STEPS_MAX))

    def is_first(self, host: str) -> bool:
        """Return whether a failure should be logged: the first, and then one in a while."""
        return self._failures.get(host, (1, 0.0))[0] % 10 == 1


class ListenerSecurity:
    """What one listener requires of its clients."""

    def __init__(
        self,
        listener: ListenerConfig,
        *,
        clock: Clock,
        metrics: Metrics,
        delays: FailureDelays,
        mechanisms: ServerMechanisms | None,
        rules: tuple[MappingRule, ...],
        is_for_nodes: bool,
        node_principals: Collection[Principal],
        authorizer: Authorizer | None = None,
    ) -> None:
        self.listener = listener
        self.clock = clock
        self.metrics = metrics
        self.delays = delays
        self.mechanisms = mechanisms
        self.rules = rules
        self._is_for_nodes = is_for_nodes
        self._node_principals = node_principals
        self._authorizer = authorizer
        self.delay_s: float = listener.get("connection.failed.authentication.delay.ms") / 1000
        self.receive_size_max: int = listener.get("sasl.server.max.receive.size")

    def wrap(self, session: "ClientSession") -> Session:
        """Return the session that receives the frames of a new connection."""
        self._give_rights(session)
        is_trusted = self._authorizer is None or ANONYMOUS in self._authorizer.super_users
        session.connection.is_node = self._is_for_nodes and not self.listener.authenticates and is_trusted
        if self.mechanisms is not None:
            return SaslSession(self, session, self.mechanisms)
        if self.listener.is_tls and self.listener.client_auth != "none":
            return CertificateSession(self, session)
        return session

    def identify(self, session: "ClientSession", principal: Principal) -> None:
        """Give a connection its principal, once."""
        session.principal = principal
        self._give_rights(session)
        # Looked up for an anonymous client, if ApiVersions came before the login.
        session.client = None
        is_trusted = principal in self._node_principals and not principal.is_token
        session.connection.is_node = self._is_for_nodes and is_trusted
        self.metrics.authentications.add()

    def _give_rights(self, session: "ClientSession") -> None:
        if self._authorizer is not None:
            session.rights = self._authorizer.rights(session.principal, session.connection.peer_host)

    def failed(self, connection: Connection, problem: str) -> float:
        """Note a failed authentication; return how long to delay what follows."""
        self.metrics.failed_authentications.add()
        factor = self.delays.note(connection.peer_host)
        if self.delays.is_first(connection.peer_host):
            where = connection.peer_host, connection.peer_port, self.listener.name
            log.warning("closing the connection from %s:%d on listener %s: %s", *where, problem)
        return self.delay_s * factor


class CertificateSession:
    """A connection whose principal is the subject of the client's certificate."""

    __slots__ = ("_inner", "_is_identified", "_security")

    def __init__(self, security: ListenerSecurity, inner: "ClientSession") -> None:
        self._security = security
        self._inner = inner
        self._is_identified = False

    def frame(self, frame: memoryview) -> bool:
        if not self._is_identified:
            certificate = self._inner.connection.peer_certificate
            # Without one the client is anonymous; OpenSSL has refused it if one is required.
            if certificate is not None and not self._identify(certificate):
                return False
            self._is_identified = True
        return self._inner.frame(frame)

    def _identify(self, certificate: bytes) -> bool:
        try:
            name = map_name(self._security.rules, subject_of(certificate))
        except InvalidCertificate as problem:
            self._security.failed(self._inner.connection, str(problem))
            self._inner.connection.close()
            return False
        self._security.identify(self._inner, user(name))
        return True

    def lost(self, error: Exception | None) -> None:
        self._inner.lost(error)


class SaslSession:
    """A connection that must authenticate with SASL before its requests are answered."""

    __slots__ = ("_inner", "_is_failing", "_is_unlimited", "_sasl", "_security", "_timer")

    def __init__(self, security: ListenerSecurity, inner: "ClientSession", mechanisms: ServerMechanisms) -> None:
        self._security = security
        self._inner = inner
        self._sasl = SaslServer(mechanisms.names, mechanisms.start, mechanisms.lifetime_ms_max)
        self._is_unlimited = self._is_failing = False
        inner.connection.limit_frames(security.receive_size_max)
        self._timer: Timer | None = security.clock.call_later(AUTHENTICATION_S_MAX, self._timed_out)

    def frame(self, frame: memoryview) -> bool:
        if self._is_unlimited:
            return self._inner.frame(frame)
        if self._is_failing:
            return False
        try:
            return self._take(frame)
        except MalformedRequest as problem:
            self._fail(str(problem))
            return False

    def _take(self, frame: memoryview) -> bool:
        now_ms = int(self._security.clock.monotonic() * 1000)
        if self._sasl.state is State.BARE_TOKENS:
            self._answer_bare(self._sasl.authenticate(bytes(frame), now_ms, wall_ms=self._security.clock.wall_ms()))
            return False
        header = parse_header(frame)
        verdict = self._sasl.classify(header.api_key, header.version, now_ms)
        if verdict is Verdict.PASS:
            return self._inner.frame(frame)
        if verdict is Verdict.GREET:
            if not is_refused(header.version, _body(frame, header)):
                self._sasl.greeted()
            return self._inner.frame(frame)
        if verdict is Verdict.HANDSHAKE:
            reply = self._sasl.handshake(_body(frame, header).mechanism, header.version, now_ms)
            self._answer_handshake(header, reply)
        elif verdict is Verdict.ILLEGAL:
            self._refuse(header)
        elif verdict is Verdict.TOKEN:
            token = bytes(_body(frame, header).auth_bytes)
            self._answer(header, self._sasl.authenticate(token, now_ms, wall_ms=self._security.clock.wall_ms()))
        else:
            self._fail(self._why(header))
        return False

    def _why(self, header: Header) -> str:
        if self._sasl.principal is not None:
            return "its session has expired"
        return f"{APIS[header.api_key].name} is not allowed before authentication"

    def _refuse(self, header: Header) -> None:
        """Refuse another request than SaslAuthenticate, without decoding it: only its header is trusted."""
        self._sasl.illegal()
        kind = APIS[header.api_key].module.upper()
        problem = f"Unexpected Kafka request of type {kind} during SASL authentication."
        body = codec.write_error(header.api_key, header.version, IllegalSaslState.code, problem)
        self._fail(problem, b"" if body is None else _framed(header, body))

    def _answer_handshake(self, header: Header, reply: HandshakeReply) -> None:
        from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

        response = SaslHandshakeResponse(error_code=_error(reply.error_code), mechanisms=reply.mechanisms)
        if reply.closes:
            self._fail("its SASL handshake was refused", _encoded(header, response))
        else:
            self._send(_encoded(header, response))

    def _answer(self, header: Header, reply: TokenReply | None) -> None:
        from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
        from kio.static.primitive import i64Timedelta

        if reply is None:
            self._fail("it changed the SASL mechanism")
            return
        response = SaslAuthenticateResponse(
            error_code=_error(reply.error_code),
            error_message=reply.message,
            auth_bytes=reply.token,
            session_lifetime=i64Timedelta.parse(timedelta(milliseconds=reply.lifetime_ms)),
        )
        if reply.error_code:
            self._fail(reply.message, _encoded(header, response))
            return
        if reply.is_authenticated:
            self._accepted()
        self._send(_encoded(header, response))

    def _answer_bare(self, reply: TokenReply | None) -> None:
        if reply is None or reply.error_code:
            self._fail("it changed the SASL mechanism" if reply is None else reply.message)
            return
        if reply.is_authenticated:
            self._accepted()
        self._send(len(reply.token).to_bytes(4, "big") + reply.token)

    def _accepted(self) -> None:
        assert self._sasl.principal is not None, "the client is authenticated"
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._inner.connection.limit_frames(None)
            self._security.identify(self._inner, self._sasl.principal)
        # The same user, but it may have used a delegation token this time.
        self._inner.principal = self._sasl.principal
        self._is_unlimited = self._sasl.expires_at_ms is None

    def _fail(self, problem: str, response: bytes = b"") -> None:
        """Answer and close after the delay; nothing is read meanwhile."""
        self._is_failing = True
        connection = self._inner.connection
        delay = self._security.failed(connection, problem)
        connection.pause_frames()
        if self._timer is not None:
            self._timer.cancel()
        finish = partial(_finish, connection, response)
        self._timer = self._security.clock.call_later(delay, finish)

    def _timed_out(self) -> None:
        self._timer = None
        if self._sasl.principal is None:
            self._fail("it did not authenticate in time")

    def _send(self, data: bytes) -> None:
        self._inner.connection.send((data,))

    def lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._inner.lost(error)


def _finish(connection: Connection, response: bytes) -> None:
    if response:
        connection.send((response,))
    connection.close()


def _body(frame: memoryview, header: Header) -> Any:
    if not APIS[header.api_key].accepts(header.version):
        return None
    return codec.read_request(header.api_key, header.version, frame[header.body_position :])


def _encoded(header: Header, response: Any) -> bytes:
    return _framed(header, codec.write_response(header.api_key, header.version, response))


def _framed(header: Header, body: bytes) -> bytes:
    return response_head(header.api_key, header.version, header.correlation_id, len(body)) + body


def _error(code: int) -> Any:
    from kio.schema.errors import ErrorCode

    return ErrorCode(code)


def load_codecs() -> None:
    """Import what the first login needs, so that it does not block the event loop."""
    for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS):
        for version in range(APIS[key].max_version + 1):
            codec.load(key, version)
