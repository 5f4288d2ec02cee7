"""Frame headers: the API, its version, the client, and where the body begins.

The network port has removed the size prefix of a request; a response includes its own. The body is decoded
by `codec.py` or a hot codec. Runs for every request, so it costs about a microsecond and creates one small object.
Refuses: MalformedRequest, after which the connection is closed without a response.
"""

from mmap import mmap
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final

from penstock.model.errors import PenstockError
from penstock.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from penstock.quotas.limits import Client

_FLEXIBLE_FROM: Final = {api.key: api.flexible_from for api in APIS.values()}
_FIXED: Final = Struct(">hhih")
_unpack_fixed: Final = _FIXED.unpack_from
_FIXED_SIZE: Final = _FIXED.size
_CORRELATION: Final = Struct(">i")
_pack_response: Final = Struct(">ii").pack
_pack_flexible_response: Final = Struct(">iiB").pack
_VARINT_SIZE_MAX: Final = 5
_VARINT_MOST: Final = 2**32 - 1
TAGGED_FIELDS_MAX: Final = 256
"""The most unknown tagged fields in a section: each takes a microsecond to skip, and a request can hold millions."""
TEXT_SIZE_MAX: Final = 2**15 - 1
MESSAGE_LENGTH_MAX: Final = 1000
CLIENT_ID_SIZE_MAX: Final = 4096
"""The longest string in bytes, also in flexible versions: group records and older responses have no room for more."""
_TEXT_SIZE_SURE: Final = TEXT_SIZE_MAX // 3


class MalformedRequest(PenstockError):
    """Bytes that are not a request. No response is possible: the connection is closed."""


class Header:
    """The header of a request. The body begins at `body_position` of the frame.

    The attributes after it are not part of the frame: the throttle time of the client, its quotas, and its rights
    (security/rights.py), which are None if everything is allowed.
    """

    __slots__ = (
        "api_key",
        "body_position",
        "client",
        "client_id",
        "correlation_id",
        "rights",
        "throttle_ms",
        "version",
    )

    def __init__(self, api_key: int, version: int, correlation_id: int, client_id: str, body_position: int) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_position = body_position
        self.throttle_ms = 0
        self.client: Client | None = None
        self.rights: Any = None

    def __repr__(self) -> str:
        api = APIS.get(self.api_key)
        return (
            f"Header({api.name if api else self.api_key} v{self.version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )


def parse_header(frame: memoryview) -> Header:
    """Read a header of version 1 or 2, depending on the version of the API.

    The version itself is not checked, because ApiVersions answers versions that it does not support.
    """
    try:
        api_key, version, correlation_id, size = _unpack_fixed(frame)
    except StructError:
        raise MalformedRequest(f"a frame of {len(frame)} bytes is too short for a header") from None
    flexible_from = _FLEXIBLE_FROM.get(api_key)
    if flexible_from is None:
        raise MalformedRequest(f"unknown API key {api_key}")
    position = _FIXED_SIZE
    client_id = ""
    if size > 0:
        position += size
        if position > len(frame):
            raise MalformedRequest(f"the client id claims {size} bytes of a frame of {len(frame)}")
        client_id = str(frame[_FIXED_SIZE:position], "utf-8", "replace")
        if size > CLIENT_ID_SIZE_MAX:
            # It is echoed, and used as a prefix of other ids, where it has to fit.
            client_id = client_id[:CLIENT_ID_SIZE_MAX]
    elif size < -1:
        raise MalformedRequest(f"the client id has a size of {size}")
    if version >= flexible_from:
        position = skip_tagged_fields(frame, position)
    return Header(api_key, version, correlation_id, client_id, position)


def read_uvarint(data: bytes | mmap | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; return it and the position behind it."""
    try:
        byte = data[position]
        if byte < 0x80:  # as most are
            return byte, position + 1
        second = data[position + 1]
        if second < 0x80:
            return byte & 0x7F | second << 7, position + 2
        value = shift = 0
        for _ in range(_VARINT_SIZE_MAX):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        else:
            raise MalformedRequest("a variable-length integer is longer than five bytes")
    except IndexError:
        raise MalformedRequest("the frame ends inside a variable-length integer") from None
    if value > _VARINT_MOST:
        raise MalformedRequest("a variable-length integer does not fit into 32 bits")
    return value, position


def clipped(message: str) -> str:
    """Return a message for people, shortened to fit the field of every version, however long the names in it."""
    return message if len(message) <= MESSAGE_LENGTH_MAX else f"{message[:MESSAGE_LENGTH_MAX]}..."


def decode_text(raw: bytes) -> str:
    """Decode a string; invalid UTF-8 is replaced, so that the error for an invalid name can contain it."""
    text = raw.decode("utf-8", "replace")
    # An invalid byte is replaced by three.
    if len(raw) > _TEXT_SIZE_SURE and len(text.encode()) > TEXT_SIZE_MAX:
        raise MalformedRequest(f"a string of {len(raw)} bytes is too long")
    return text


def skip_tagged_fields(data: bytes | memoryview, position: int) -> int:
    """Return the position behind a section of unknown tagged fields (KIP-482)."""
    size = len(data)
    if position < size and data[position] == 0:
        return position + 1
    count, position = read_uvarint(data, position)
    # Each takes at least its tag and its size, so a larger count is wrong and not worth a loop.
    if 2 * count > size - position:
        raise MalformedRequest(f"{count} tagged fields in {size - position} bytes")
    if count > TAGGED_FIELDS_MAX:
        raise MalformedRequest(f"{count} tagged fields are more than {TAGGED_FIELDS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(data, position)
        field_size, position = read_uvarint(data, position)
        position += field_size
        if position > size:
            raise MalformedRequest(f"a tagged field of {field_size} bytes ends after the frame")
    return position


def has_flexible_response_header(api_key: int, version: int) -> bool:
    """Return whether the response header is flexible; never for ApiVersions (KIP-511)."""
    return api_key != ApiKey.API_VERSIONS and version >= _FLEXIBLE_FROM[api_key]


def response_head(api_key: int, version: int, correlation_id: int, body_size: int) -> bytes:
    """Return the size prefix and header for a response body of a given size."""
    if api_key != ApiKey.API_VERSIONS and version >= _FLEXIBLE_FROM[api_key]:
        return _pack_flexible_response(body_size + 5, correlation_id, 0)
    return _pack_response(body_size + 4, correlation_id)


def request_head(api_key: int, version: int, correlation_id: int, client_id: str | None, body_size: int) -> bytes:
    """Return the size prefix and header for a request body of a given size; for tests and tools."""
    name = None if client_id is None else client_id.encode()
    head = _FIXED.pack(api_key, version, correlation_id, -1 if name is None else len(name)) + (name or b"")
    if version >= _FLEXIBLE_FROM[api_key]:
        head += b"\x00"
    return _CORRELATION.pack(len(head) + body_size) + head


def parse_response_header(api_key: int, version: int, frame: memoryview) -> tuple[int, int]:
    """Return the correlation id and the position of the body in a response frame; for tests and tools."""
    if len(frame) < _CORRELATION.size:
        raise MalformedRequest(f"a frame of {len(frame)} bytes is too short for a response header")
    correlation_id: int = _CORRELATION.unpack_from(frame)[0]
    position = _CORRELATION.size
    if has_flexible_response_header(api_key, version):
        position = skip_tagged_fields(frame, position)
    return correlation_id, position
