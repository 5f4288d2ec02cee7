"""The states of a SASL connection on the server's side (docs/internals/security.md).

`SaslServer.classify` says what to do with a request, by a table; `handshake` and `authenticate` move between states
and return what to answer. Values in, values out: server/authentication.py reads the clock and sends the responses.
Refuses nothing: every wrong request has its row.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.model.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from penstock.security.mechanism import Accepted, AuthenticationFailed, ServerMechanism
from penstock.security.principal import Principal, token_owner, user
from penstock.wire.api import APIS, ApiKey

REAUTHENTICATION_MS_MIN: Final = 1000
NO_ERROR: Final = 0


class State(Enum):
    START = auto()
    """Nothing was received."""
    GREETED = auto()
    """The client knows the versions of the APIs."""
    TOKENS = auto()
    """The client sends SaslAuthenticate requests."""
    BARE_TOKENS = auto()
    """The client sends tokens without a header, after SaslHandshake v0."""
    AUTHENTICATED = auto()
    """The principal is known."""
    CLOSED = auto()
    """Authentication has failed; nothing more is read."""


class Verdict(Enum):
    GREET = auto()
    """Pass ApiVersions on."""
    HANDSHAKE = auto()
    TOKEN = auto()
    ILLEGAL = auto()
    """Answer with ILLEGAL_SASL_STATE, then close: the client must send tokens now."""
    PASS = auto()
    """Pass the request on: the client is authenticated."""
    CLOSE = auto()


_TABLE: Final[Mapping[State, Mapping[int, Verdict]]] = {
    State.START: {ApiKey.API_VERSIONS: Verdict.GREET, ApiKey.SASL_HANDSHAKE: Verdict.HANDSHAKE},
    State.GREETED: {ApiKey.SASL_HANDSHAKE: Verdict.HANDSHAKE},
    State.TOKENS: {ApiKey.SASL_AUTHENTICATE: Verdict.TOKEN},
    State.CLOSED: {},
}
_OTHERWISE: Final[Mapping[State, Verdict]] = {State.TOKENS: Verdict.ILLEGAL}
"""What to do with a request that is not in the table; CLOSE if the state is not in this one."""


class HandshakeReply(NamedTuple):
    error_code: int
    mechanisms: tuple[str, ...]
    closes: bool


class TokenReply(NamedTuple):
    error_code: int
    message: str
    """Empty without an error, as in Kafka."""
    token: bytes
    lifetime_ms: int
    is_authenticated: bool


StartMechanism = Callable[[str], ServerMechanism]
"""Starts an exchange with an enabled mechanism."""
LifetimeMax = Callable[[str], int]
"""Returns connections.max.reauth.ms of a mechanism; 0 means no limit."""


class SaslServer:
    """The authentication of one connection."""

    def __init__(self, mechanisms: tuple[str, ...], start: StartMechanism, lifetime_ms_max: LifetimeMax) -> None:
        self.state = State.START
        self.principal: Principal | None = None
        self.mechanism: str | None = None
        self.expires_at_ms: int | None = None
        """When the session ends, by the monotonic clock; None if it does not."""
        self._mechanisms = mechanisms
        self._start = start
        self._lifetime_ms_max = lifetime_ms_max
        self._exchange: ServerMechanism | None = None
        self._reauthenticated_at_ms: int | None = None
        self._wants_other_mechanism = False

    def classify(self, api_key: int, version: int, now_ms: int) -> Verdict:
        """Return what to do with a request."""
        state = self.state
        if state is State.AUTHENTICATED:
            return self._classify_authenticated(api_key, now_ms)
        assert state is not State.BARE_TOKENS, "every frame is a token, without a header"
        verdict = _TABLE[state].get(api_key, _OTHERWISE.get(state, Verdict.CLOSE))
        if verdict is not Verdict.GREET and verdict is not Verdict.CLOSE and not APIS[api_key].accepts(version):
            return Verdict.CLOSE
        return verdict

    def _classify_authenticated(self, api_key: int, now_ms: int) -> Verdict:
        expires = self.expires_at_ms
        if expires is None:
            return Verdict.PASS
        # As in Kafka, the interval is between the beginnings of two re-authentications; the first may come any time.
        last = self._reauthenticated_at_ms
        if api_key == ApiKey.SASL_HANDSHAKE and (last is None or now_ms - last >= REAUTHENTICATION_MS_MIN):
            return Verdict.HANDSHAKE
        return Verdict.CLOSE if now_ms >= expires else Verdict.PASS

    def greeted(self) -> None:
        """Note that ApiVersions was answered without an error."""
        if self.state is State.START:
            self.state = State.GREETED

    def handshake(self, mechanism: str, version: int, now_ms: int) -> HandshakeReply:
        """Begin an exchange with the mechanism that the client wants."""
        if self.principal is not None:
            self._reauthenticated_at_ms = now_ms
        if mechanism not in self._mechanisms:
            self.state = State.CLOSED
            return HandshakeReply(UnsupportedSaslMechanism.code, self._mechanisms, True)
        # Kafka notices a changed mechanism at the first token, so it answers the handshake.
        self._wants_other_mechanism = self.mechanism is not None and mechanism != self.mechanism
        self.mechanism = self.mechanism or mechanism
        self._exchange = self._start(mechanism)
        self.state = State.TOKENS if version >= 1 else State.BARE_TOKENS
        return HandshakeReply(NO_ERROR, self._mechanisms, False)

    def illegal(self) -> None:
        """Note a request that must not come now."""
        self._exchange = None
        self.state = State.CLOSED

    def authenticate(self, token: bytes, now_ms: int, *, wall_ms: int) -> TokenReply | None:
        """Take a token of the client; None closes the connection without a response.

        Sessions are measured by the monotonic clock; credentials expire by the wall clock.
        """
        assert self._exchange is not None and self.mechanism is not None, "a handshake comes first"
        if self._wants_other_mechanism:
            self.state = State.CLOSED
            return None
        try:
            outcome = self._exchange.step(token)
            if isinstance(outcome, Accepted):
                return self._accepted(outcome, now_ms, wall_ms)
        except AuthenticationFailed as problem:
            return self._failed(str(problem))
        return TokenReply(NO_ERROR, "", outcome.message, 0, False)

    def _accepted(self, outcome: Accepted, now_ms: int, wall_ms: int) -> TokenReply:
        assert self.mechanism is not None
        principal = (token_owner if outcome.is_token else user)(outcome.user)
        if self.principal is not None and principal != self.principal:
            return self._failed(
                f"Cannot change principals during re-authentication from {self.principal.type}.{self.principal.name}: "
                f"{principal.type}.{principal.name}"
            )
        longest = self._lifetime_ms_max(self.mechanism)
        limits = [longest] if longest > 0 else []
        if outcome.expires_at_ms is not None:
            if outcome.expires_at_ms <= wall_ms:
                return self._failed("The credential has expired")
            limits.append(outcome.expires_at_ms - wall_ms)
        lifetime = min(limits, default=0)
        self.principal = principal
        self.expires_at_ms = now_ms + lifetime if lifetime else None
        self._exchange = None
        self.state = State.AUTHENTICATED
        return TokenReply(NO_ERROR, "", outcome.message, lifetime, True)

    def _failed(self, message: str) -> TokenReply:
        self._exchange = None
        self.state = State.CLOSED
        return TokenReply(SaslAuthenticationFailed.code, message, b"", 0, False)
