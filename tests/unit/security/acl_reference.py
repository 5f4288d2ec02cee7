"""Random inputs for the authorizer and for the reference in the simulator, a search of all ACLs.

`python -m tests.unit.security.acl_reference 1000000` compares that many decisions of the index with the reference.
"""

from __future__ import annotations

import sys
from random import Random

from penstock.model.acl import Acl
from penstock.security.authorizer import AclIndex
from penstock_sim.authorized import is_allowed

NAMES = ("a", "ab", "abc", "b", "ba", "*", "a*", "")
PRINCIPALS = ("User:x", "User:y", "User:*", "Group:x")
HOSTS = ("1.1.1.1", "2.2.2.2", "*")
OPERATIONS = tuple(range(2, 16))


def random_acl(random: Random) -> Acl:
    return Acl(
        resource_type=random.choice((2, 3, 4)),
        resource_name=random.choice(NAMES[:-1]),
        pattern_type=random.choice((3, 4)),
        principal=random.choice(PRINCIPALS),
        host=random.choice(HOSTS),
        operation=random.choice(OPERATIONS),
        permission=random.choice((2, 3, 3)),
    )


def compare(random: Random, decisions: int, *, per_set: int = 50) -> int:
    """Compare decisions while ACLs are created and deleted; return how many were compared."""
    done = 0
    while done < decisions:
        acls = list({random_acl(random) for _ in range(random.randrange(0, 12))})
        index = AclIndex(acls)
        for _ in range(per_set):
            if random.random() < 0.2:
                change(random, acls, index)
            asked = (
                random.choice(PRINCIPALS),
                random.choice(HOSTS[:2]),
                random.choice(OPERATIONS),
                random.choice((2, 3, 4)),
                random.choice(NAMES),
            )
            default = random.random() < 0.5
            expected = is_allowed(acls, *asked, if_no_acl=default)
            decision = index.decide(*asked, if_no_acl=default)
            assert decision.is_allowed == expected, (asked, default, decision, acls)
            done += 1
    return done


def change(random: Random, acls: list[Acl], index: AclIndex) -> None:
    acl = random_acl(random)
    if acl not in acls:
        acls.append(acl)
        index.add(acl)
    if len(acls) > 8 or random.random() < 0.5:
        index.remove(acls.pop(random.randrange(len(acls))))


if __name__ == "__main__":
    print(compare(Random(1), int(sys.argv[1])), "decisions agree")
