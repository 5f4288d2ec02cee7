"""Frames to send to a broker: valid ones of every API and version, and their mutations."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from random import Random
from types import GenericAlias, NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from penstock.wire import codec
from penstock.wire.api import APIS
from penstock.wire.frame import request_head
from penstock.wire.records import Record, encode_batch

TOPIC = "fuzz"
TEXTS = (TOPIC, "", "a.b", "x" * 300)
Texts = tuple[str, ...]
EXTREMES = (0, 1, -1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 2**24, 2**31 - 1, -(2**31), 2**32 - 1)


def sound_frames(random: Random, *, count: int = 3, client_id: str = "fuzz", texts: Texts = TEXTS) -> list[bytes]:
    """Return plausible requests for every version of every API, without the size prefix."""
    frames = []
    for api in APIS.values():
        for version in range(max(api.min_version, api.accepted_from), api.max_version + 1):
            request = codec.request_class(api.key, version)
            for _ in range(count):
                body = codec.write_request(api.key, version, _made(request, random, texts))
                frames.append(request_head(api.key, version, 7, client_id, len(body))[4:] + body)
    return frames


def _made(kind: Any, random: Random, texts: Texts, name: str = "") -> Any:
    """Return a value of a kio type: small, legal, and sometimes one that suits the field's name."""
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(
            **{
                field.name: field.default
                if field.default is not MISSING and random.random() < 0.3
                else _made(field.type, random, texts, field.name)
                for field in fields(kind)
            }
        )
    origin = get_origin(kind)
    if origin is tuple or isinstance(kind, GenericAlias):
        return tuple(_made(get_args(kind)[0], random, texts, name) for _ in range(random.randint(0, 2)))
    if origin is UnionType or isinstance(kind, UnionType):
        return _made(random.choice([each for each in get_args(kind) if each is not NoneType]), random, texts, name)
    return _primitive(kind, random, texts, name)


def _primitive(kind: Any, random: Random, texts: Texts, name: str) -> Any:
    described = str(getattr(kind, "__name__", kind))
    if described == "bytes" or ("records" in name and not described.startswith("i")):
        return encode_batch([Record(0, 1, b"k", b"v" * random.randint(0, 50), ())])
    if described == "UUID" or kind is UUID:
        return UUID(int=random.getrandbits(128) | 2)
    if described == "bool":
        return random.random() < 0.5
    if "Timedelta" in described:
        return timedelta(milliseconds=random.choice((0, 1, 10)))
    if described in ("f64", "float"):
        return random.random()
    if described == "str" or "Name" in described or ("Id" in described and not described.startswith("i")):
        try:
            return kind(random.choice(texts))
        except (TypeError, ValueError):
            return kind(random.randint(0, 3))
    if described == "ErrorCode":
        return kind(0)
    return kind(random.choice((0, 1, 2, 3)))


def mutations(sound: list[bytes], random: Random) -> Iterator[bytes]:
    """Yield mutated frames without end, with the size prefix; most of them with a correct one."""
    while True:
        frame = bytearray(random.choice(sound))
        for _ in range(random.choice((1, 1, 2, 4))):
            _mutate(frame, random)
        size = len(frame) if random.random() < 0.97 else random.choice(EXTREMES)
        yield struct.pack(">I", size & 0xFFFFFFFF) + frame


def _mutate(frame: bytearray, random: Random) -> None:
    position = random.randrange(len(frame)) if frame else 0
    choice = random.randrange(7)
    if choice == 0 and frame:
        frame[position] ^= 1 << random.randrange(8)
    elif choice == 1:
        del frame[position:]
    elif choice == 2:
        frame[position:position] = random.randbytes(random.randint(1, 20))
    elif choice == 3 and frame:
        frame[position] = random.choice((0x00, 0x7F, 0x80, 0xFF))
    elif choice == 4:
        frame[position : position + 4] = struct.pack(">I", random.choice(EXTREMES) & 0xFFFFFFFF)
    elif choice == 5:
        frame[position : position + 2] = struct.pack(">H", random.choice(EXTREMES) & 0xFFFF)
    else:
        frame[position : position + 5] = b"\xff\xff\xff\xff" + bytes((random.choice((0x07, 0x0F, 0x7F, 0xFF)),))
