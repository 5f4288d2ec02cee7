"""TLS for the network port: OpenSSL contexts, their renewal when files change, and encrypted sockets.

`TlsSocket` has the methods of a socket that connection.py uses, on MemoryBIO and SSLObject: many TLS records per
system call, and no call blocks. Contexts issue no session tickets: a ticket would stay valid after its client's
certificate has expired. Raises TlsError.
"""

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from penstock.ports.network import TlsError, TlsSettings, TlsStore
from penstock.ports.real.stores import KeyPair, load_authorities, load_key

log = logging.getLogger(__name__)

TLS_FIRST_BYTE: Final = 0x16
CHECK_INTERVAL_S: Final = 1.0
"""How often the files of a context are checked for changes."""
PLAIN_SIZE_MAX: Final = 128 * 1024
"""How much is encrypted at a time: a peer that does not read makes this node hold no more."""
CIPHER_READ_SIZE: Final = 256 * 1024
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

# One loop reads one socket at a time.
_cipher = bytearray(CIPHER_READ_SIZE)
_cipher_view = memoryview(_cipher)

Stamp = tuple[tuple[str, int, int], ...]


class TlsState(NamedTuple):
    """The OpenSSL side of one connection, before it has a socket."""

    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    ssl: ssl.SSLObject
    is_server: bool


class Identity(NamedTuple):
    """The names in a certificate."""

    subject: str
    hosts: frozenset[str]


class ServerTls:
    """The context of a listener. Its files are loaded again when they change."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._stamp = _stamp(settings)
        self._context, self._key = _server_context(settings)
        self._checked_at = 0.0

    def wrap(self, now: float) -> TlsState:
        """Return the state of a new connection."""
        if now - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = now
            stamp = _stamp(self._settings)
            if stamp != self._stamp:
                # Noted first: a file that cannot be loaded is tried again only when it has changed again.
                self._stamp = stamp
                try:
                    self.renew(self._settings)
                except TlsError as problem:
                    log.error("cannot load the changed certificate, the present one stays in use: %s", problem)
        return _state(self._context, None)

    def renew(self, settings: TlsSettings) -> None:
        context, key = _server_context(settings)
        if key.pem != self._key.pem:
            _check_names(settings, _identity(self._key), _identity(key))
        if (settings.trust_store is None) != (self._settings.trust_store is None):
            raise TlsError("a trust store cannot be added or removed while the node runs")
        self._settings, self._stamp = settings, _stamp(settings)
        self._context, self._key = context, key
        log.info("loaded the certificate of a listener again")


class ClientTls:
    """The context of connections to other nodes. Its files are loaded again when they change."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._stamp = _stamp(settings)
        self._context = _client_context(settings)

    def wrap(self, host: str) -> TlsState:
        stamp = _stamp(self._settings)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = _client_context(self._settings)
            except TlsError as problem:
                log.error("cannot load the changed certificate, the present one stays in use: %s", problem)
        return _state(self._context, host)


class TlsSocket:
    """A connected socket with TLS."""

    __slots__ = ("_cipher", "_owed", "_raw", "_seen", "_tls", "has_pending", "is_ready")

    def __init__(self, raw: socket.socket, tls: TlsState) -> None:
        self._raw = raw
        self._tls = tls
        self._cipher: bytes | memoryview = b""
        self._owed = 0
        self._seen = False
        self.has_pending = False
        """Whether there may be more data to read, which the loop does not notice."""
        self.is_ready = False
        """Whether the handshake has ended."""

    def fileno(self) -> int:
        return self._raw.fileno()

    def getsockname(self) -> tuple[str, int]:
        name: tuple[str, int] = self._raw.getsockname()
        return name

    @property
    def unsent(self) -> int:
        """Return the size of the encrypted bytes that the peer has not read yet."""
        return len(self._cipher)

    def peer_certificate(self) -> bytes | None:
        return self._tls.ssl.getpeercert(True) if self.is_ready else None

    def handshake(self) -> bool:
        """Continue the handshake with what has arrived; return whether it has ended. Raises TlsError."""
        while True:
            try:
                self._tls.ssl.do_handshake()
            except ssl.SSLWantReadError:
                self._send_handshake()
            except (ssl.SSLError, ValueError) as error:
                # The alert that tells the peer why.
                with contextlib.suppress(OSError):
                    self._send_handshake()
                raise TlsError(_explain(error)) from None
            else:
                self._send_handshake()
                self.is_ready = self.has_pending = True
                return True
            try:
                count = self._raw.recv_into(_cipher)
            except (BlockingIOError, InterruptedError):
                return False
            if count == 0:
                if not self._seen:
                    raise ConnectionAbortedError("the peer only checked whether the port is open")
                raise TlsError("the peer closed the connection during the TLS handshake")
            if not self._seen:
                self._seen = True
                if self._tls.is_server and _cipher[0] != TLS_FIRST_BYTE:
                    raise TlsError("it sends plain text, but this listener expects TLS")
            self._tls.incoming.write(_cipher_view[:count])

    def _send_handshake(self) -> None:
        data = self._tls.outgoing.read()
        if data and self._raw.send(data) < len(data):
            raise TlsError("the peer does not read the TLS handshake")

    def recv_into(self, view: memoryview) -> int:
        """Read what has arrived, as a socket does; 0 is the end of the connection."""
        got, size = 0, len(view)
        # With a buffer it returns a count.
        read = cast(Callable[[int, memoryview], int], self._tls.ssl.read)
        while got < size:
            try:
                count = read(size - got, view[got:] if got else view)
            except ssl.SSLWantReadError:
                self.has_pending = False
                if got:
                    return got
                arrived = self._raw.recv_into(_cipher)
                if arrived == 0:
                    return 0
                self._tls.incoming.write(_cipher_view[:arrived])
                continue
            except ssl.SSLZeroReturnError:
                return got
            if not count:
                return got
            got += count
        self.has_pending = True
        return got

    def recv(self, size: int) -> bytes:
        data = bytearray(size)
        return bytes(data[: self.recv_into(memoryview(data))])

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Encrypt and send; return how much of the data was sent.

        Raises BlockingIOError if the peer is full. The next call must begin with the same bytes, even if they were
        encrypted already: they count as sent when all that was encrypted is sent.
        """
        if not self._owed:
            if not len(data):
                return 0
            self._owed = self._tls.ssl.write(memoryview(data)[:PLAIN_SIZE_MAX])
            self._cipher = self._tls.outgoing.read()
        sent = self._raw.send(self._cipher)
        if sent < len(self._cipher):
            self._cipher = memoryview(self._cipher)[sent:]
            raise BlockingIOError
        owed, self._owed, self._cipher = self._owed, 0, b""
        return owed

    @property
    def is_owing(self) -> bool:
        return self._owed > 0

    def sendmsg(self, buffers: "list[bytes | bytearray | memoryview]", _: object = (), flags: int = 0) -> int:
        if self._owed:
            return self.send(b"")
        # One record for many small parts; a record for each would cost more than the copy.
        gathered: list[bytes | bytearray | memoryview] = []
        size = 0
        for each in buffers:
            gathered.append(each)
            size += len(each)
            if size >= PLAIN_SIZE_MAX:
                break
        return self.send(b"".join(gathered))

    def close(self) -> None:
        """Tell the peer that this is the end, if that does not block, and close the socket."""
        if self.is_ready and not self._owed:
            with contextlib.suppress(OSError):
                self._tls.ssl.unwrap()
            with contextlib.suppress(OSError):
                self._raw.send(self._tls.outgoing.read())
        self._raw.close()


def _state(context: ssl.SSLContext, server_name: str | None) -> TlsState:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    is_server = server_name is None
    wrapped = context.wrap_bio(incoming, outgoing, server_side=is_server, server_hostname=server_name)
    return TlsState(incoming, outgoing, wrapped, is_server)


def _server_context(settings: TlsSettings) -> tuple[ssl.SSLContext, KeyPair]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert settings.key_store is not None, "a listener needs a certificate"
    key = load_key(settings.key_store)
    _restrict(context, settings)
    _load_pair(context, key, settings.key_store)
    context.num_tickets = 0
    if settings.client_auth != "none":
        assert settings.trust_store is not None, "certificates are verified against a trust store"
        context.verify_mode = ssl.CERT_REQUIRED if settings.client_auth == "required" else ssl.CERT_OPTIONAL
    if settings.trust_store is not None:
        _load_trust(context, settings.trust_store)
    return context, key


def _client_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_name
    _restrict(context, settings)
    if settings.trust_store is None:
        context.load_default_certs()
    else:
        _load_trust(context, settings.trust_store)
    if settings.key_store is not None:
        _load_pair(context, load_key(settings.key_store), settings.key_store)
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[name] for name in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _load_pair(context: ssl.SSLContext, pair: KeyPair, store: TlsStore) -> None:
    where = store.location or "ssl.keystore.key"
    # OpenSSL reads keys from files only; this one is in memory, and nobody else can open it.
    fd = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(fd, pair.pem)
        # A function, because OpenSSL would ask on the terminal for the password of a key that needs one.
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=lambda: pair.password or "")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise TlsError(
            f"Cannot use the key and certificate in {where}: {_explain(error)}. Check that the file has a private key "
            "followed by its certificates, and ssl.key.password"
        ) from None
    finally:
        os.close(fd)


def _load_trust(context: ssl.SSLContext, store: TlsStore) -> None:
    try:
        context.load_verify_locations(cadata=load_authorities(store))
    except TlsError:
        raise
    except (ssl.SSLError, ValueError) as error:
        where = store.location or "ssl.truststore.certificates"
        raise TlsError(f"Cannot use the certificates in {where}: {_explain(error)}") from None


def _stamp(settings: TlsSettings) -> Stamp:
    """Return what changes when a file of the settings changes."""
    found = []
    for store in (settings.key_store, settings.trust_store):
        if store is not None and store.location is not None:
            try:
                status = os.stat(store.location)
                found.append((store.location, status.st_mtime_ns, status.st_size))
            except OSError:
                found.append((store.location, 0, 0))
    return tuple(found)


def _check_names(settings: TlsSettings, before: Identity, after: Identity) -> None:
    """Check that a new certificate is for the same node (KIP-978)."""
    if before.subject != after.subject and not settings.allows_other_name:
        raise TlsError(
            f"the new certificate is for {after.subject}, not for {before.subject}: set ssl.allow.dn.changes=true"
        )
    missing = before.hosts - after.hosts
    if missing and not settings.allows_fewer_hosts:
        raise TlsError(f"the new certificate is not for {', '.join(sorted(missing))}: set ssl.allow.san.changes=true")


def _identity(pair: KeyPair) -> Identity:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificates(pair.pem)[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = frozenset(str(name.value) for name in names)
    except x509.ExtensionNotFound:
        hosts = frozenset()
    return Identity(certificate.subject.rfc4514_string(), hosts)


def _explain(error: Exception) -> str:
    """Return OpenSSL's reason in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)
