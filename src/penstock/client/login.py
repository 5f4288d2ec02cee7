"""Connections to other nodes that are encrypted and authenticated as a listener requires.

`SecuredDialer.connect` has the signature of the network port, and reports a connection as open after its TLS handshake
and its SASL login. So the code that sends requests does not know about either. The mechanism's messages come from
security/; they are computed off the event loop, because SCRAM takes milliseconds. A failed login is reported as
TlsError or LoginFailed, both of them OSErrors.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final

from penstock.ports.clock import Clock
from penstock.ports.network import Connection, Network, Opened, Session, TlsSettings
from penstock.ports.offload import Offload
from penstock.security.mechanism import AuthenticationFailed, ClientMechanism
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest, parse_response_header, request_head

LOGIN_S_MAX: Final = 10.0
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1
_INT32: Final = Struct(">i")


class LoginFailed(OSError):
    """The other node did not accept this node's credentials, or did not prove that it knows them."""


StartLogin = Callable[[], ClientMechanism]


class SecuredDialer:
    """Opens connections to one kind of listener."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        *,
        client_id: str,
        tls: TlsSettings | None,
        mechanism: str | None,
        start_login: StartLogin | None,
        offload: Offload | None = None,
    ) -> None:
        self._offload = offload
        self._network = network
        self._clock = clock
        self._client_id = client_id
        self._tls = tls
        self._mechanism = mechanism
        self._start_login = start_login

    def connect(self, host: str, port: int, opened: Opened) -> None:
        if self._mechanism is None or self._start_login is None:
            self._network.connect(host, port, opened, self._tls)
            return
        mechanism, start = self._mechanism, self._start_login

        def connected(outcome: Connection | OSError) -> Session | None:
            if isinstance(outcome, OSError):
                opened(outcome)
                return None
            return _Login(outcome, opened, mechanism, start(), self._clock, self._client_id, self._offload)

        self._network.connect(host, port, connected, self._tls)


class _Login:
    """The session of a connection until this node is logged in; afterwards it passes frames on."""

    def __init__(
        self,
        connection: Connection,
        opened: Opened,
        mechanism: str,
        exchange: ClientMechanism,
        clock: Clock,
        client_id: str,
        offload: Offload | None,
    ) -> None:
        self._offload = offload
        self._connection = connection
        self._opened: Opened | None = opened
        self._exchange = exchange
        self._client_id = client_id
        self._inner: Session | None = None
        self._is_greeted = False
        self._is_proved = False
        self._timer = clock.call_later(LOGIN_S_MAX, lambda: self._fail("the login did not end in time"))
        from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

        self._send(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism=mechanism))

    def frame(self, frame: memoryview) -> bool | None:
        if self._inner is not None:
            return self._inner.frame(frame)
        try:
            self._take(frame)
        except (AuthenticationFailed, MalformedRequest, LoginFailed) as problem:
            self._fail(str(problem))
        return None

    def _take(self, frame: memoryview) -> None:
        if not self._is_greeted:
            self._is_greeted = True
            answer = _read(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, frame)
            if answer.error_code:
                raise LoginFailed(f"it offers the SASL mechanisms {', '.join(answer.mechanisms) or 'none'}")
            self._authenticate(self._exchange.first())
            return
        answer = _read(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, frame)
        if answer.error_code:
            raise LoginFailed(str(answer.error_message))
        step = partial(self._exchange.step, bytes(answer.auth_bytes))
        if self._offload is None:
            self._stepped(step(), None)
        else:
            self._connection.pause_frames()
            self._offload.run(step, self._stepped)

    def _stepped(self, following: bytes | None, problem: BaseException | None) -> None:
        if self._opened is None:
            return  # the connection was lost meanwhile, or the time is up
        if self._offload is not None:
            self._connection.resume_frames()
        if problem is not None:
            self._fail(str(problem))
        elif following is None:
            self._finish()
        else:
            self._authenticate(following)

    def _finish(self) -> None:
        self._timer.cancel()
        opened, self._opened = self._opened, None
        assert opened is not None, "the login has not failed"
        self._inner = opened(self._connection)
        if self._inner is None:
            self._connection.close()

    def _authenticate(self, token: bytes) -> None:
        from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

        self._send(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, SaslAuthenticateRequest(auth_bytes=token))

    def _send(self, api_key: int, version: int, request: Any) -> None:
        body = codec.write_request(api_key, version, request)
        self._connection.send((request_head(api_key, version, 0, self._client_id, len(body)), body))

    def _fail(self, problem: str) -> None:
        self._timer.cancel()
        opened, self._opened = self._opened, None
        self._connection.close()
        if opened is not None:
            opened(LoginFailed(f"the login failed: {problem}"))

    def lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        if self._inner is not None:
            self._inner.lost(error)
            return
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(LoginFailed(f"the connection broke during the login: {error or 'closed by the peer'}"))


def _read(api_key: int, version: int, frame: memoryview) -> Any:
    if len(frame) < _INT32.size:
        raise LoginFailed("the response is too short")
    _, position = parse_response_header(api_key, version, frame)
    return codec.read_response(api_key, version, frame[position:])
