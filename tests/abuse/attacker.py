"""python -m tests.abuse.attacker TARGET ATTACK: one attack as a process."""

from __future__ import annotations

import json
import resource
import sys

from tests.abuse.attack import Gate, Target
from tests.abuse.catalogue import BY_NAME
from tests.abuse.child import receive_from_parent, send_to_parent


def _wait() -> float:
    send_to_parent("ready")
    return float(receive_from_parent())


def main() -> None:
    target = Target(**json.loads(sys.argv[1]))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gate = Gate(_wait)
    counts = BY_NAME[sys.argv[2]].run(target, gate)
    # Open connections stay open until the campaign ends this process.
    send_to_parent({"counts": dict(counts), "broken": gate.broken})
    sys.stdin.readline()


if __name__ == "__main__":
    main()
