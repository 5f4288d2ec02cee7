"""The ports on the operating system."""

import asyncio
import os
import time
from collections.abc import Callable
from random import Random, SystemRandom
from uuid import UUID

from penstock.ports.clock import Timer
from penstock.ports.instruments import Instruments
from penstock.ports.real_child import RealChildren
from penstock.ports.real_disk import RealDisk
from penstock.ports.real_http import RealHttp
from penstock.ports.real_network import RealNetwork
from penstock.ports.real_offload import ThreadOffload
from penstock.ports.real_process import process_usage

__all__ = ["RealChildren", "RealClock", "RealDisk", "RealEntropy", "RealNetwork", "ThreadOffload", "real_instruments"]


def real_instruments(disk: RealDisk, network: RealNetwork) -> Instruments:
    return Instruments(
        stopwatch=network,
        watch=network.watch,
        http=RealHttp(),
        network_usage=network.usage,
        process_usage=process_usage,
        time_syncs=disk.time_syncs,
    )


class RealClock:
    # Asked several times for every request: the function itself, without one of ours around it.
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)


class RealEntropy:
    def __init__(self) -> None:
        self._random = SystemRandom()

    def uuid(self) -> UUID:
        while True:
            candidate = UUID(bytes=os.urandom(16), version=4)
            # 62 in the first six bits is '-' in base64: tools would read such an id as an option.
            # Kafka keeps the ids 0 and 1 for itself.
            if candidate.bytes[0] >> 2 != 62 and candidate.int > 1:
                return candidate

    def stream(self, name: str) -> Random:
        return self._random
