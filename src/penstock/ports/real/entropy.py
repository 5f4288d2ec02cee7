"""The random numbers of the operating system."""

import os
from random import Random, SystemRandom
from uuid import UUID


class RealEntropy:
    def __init__(self) -> None:
        self._random = SystemRandom()

    def uuid(self) -> UUID:
        while True:
            candidate = UUID(bytes=os.urandom(16), version=4)
            # 62 in the first six bits is '-' in base64: tools would parse such an id as an option.
            # Kafka reserves the ids 0 and 1.
            if candidate.bytes[0] >> 2 != 62 and candidate.int > 1:
                return candidate

    def stream(self, name: str) -> Random:
        return self._random
