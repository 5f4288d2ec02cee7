"""All attacks, by family and by name."""

from __future__ import annotations

from tests.abuse.attack import Attack
from tests.abuse.attacks import bombs, connections, encryption, files, frames, groups, names, topics, uploads

ATTACKS: tuple[Attack, ...] = (
    *bombs.ATTACKS,
    *uploads.ATTACKS,
    *connections.ATTACKS,
    *encryption.ATTACKS,
    *frames.ATTACKS,
    *names.ATTACKS,
    *groups.ATTACKS,
    *topics.ATTACKS,
    *files.ATTACKS,
)
BY_NAME = {attack.name: attack for attack in ATTACKS}
assert len(BY_NAME) == len(ATTACKS), "two attacks have the same name"
