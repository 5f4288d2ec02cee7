"""Invariants 32-35: groups, generations and committed offsets."""

from collections import defaultdict
from collections.abc import Iterator

from penstock_sim.history import ENDLESS, FAIL, OK, Commit, History, PartitionId


def _interval(commit: Commit) -> tuple[float, float]:
    """Return when a commit may have taken effect. A transactional commit takes effect with the transaction's end."""
    if commit.txn is not None:
        return commit.txn.end_began, commit.txn.ended
    return commit.began, commit.ended if commit.outcome == OK else ENDLESS


def _outcome(commit: Commit) -> bool | None:
    """Return whether the commit succeeded; None if unknown."""
    if commit.txn is not None:
        return commit.txn.committed
    return True if commit.outcome == OK else (False if commit.outcome == FAIL else None)


def inv_32_committed_offsets_stay(history: History) -> Iterator[str]:
    """A fetched offset is that of a commit that no later acknowledged commit has replaced."""
    by_partition: dict[tuple[str, PartitionId], list[Commit]] = defaultdict(list)
    for commit in history.commits:
        by_partition[commit.group, commit.partition].append(commit)
    for fetched in history.fetched_offsets:
        commits = [each for each in by_partition[fetched.group, fetched.partition] if _outcome(each) is not False]
        certain = [each for each in commits if _outcome(each) is True and _interval(each)[1] < fetched.began]
        allowed = {
            each.offset
            for each in commits
            if _interval(each)[0] <= fetched.ended
            and not any(_interval(later)[0] > _interval(each)[1] for later in certain)
        }
        if not certain:
            allowed.add(-1)
        if fetched.offset not in allowed:
            yield (
                f"group {fetched.group} {fetched.partition}: {fetched.client} fetched {fetched.offset} at "
                f"{fetched.ended:.3f} s, possible are {sorted(allowed)}"
            )


def inv_33_a_stale_generation_commits_nothing(history: History) -> Iterator[str]:
    for commit in history.commits:
        if commit.outcome != OK or commit.txn is not None:
            continue
        newer = [
            each
            for each in history.assigned
            if each.group == commit.group and each.generation > commit.generation and each.ended < commit.began
        ]
        if newer:
            yield (
                f"group {commit.group}: {commit.client} committed in generation {commit.generation} at "
                f"{commit.began:.3f} s, generation {newer[0].generation} was assigned at {newer[0].ended:.3f} s"
            )


def inv_34_a_partition_has_one_owner(history: History) -> Iterator[str]:
    owners: dict[tuple[str, int, tuple[str, ...], PartitionId], str] = {}
    for each in history.assigned:
        for partition_id in each.partitions:
            owner = owners.setdefault((each.group, each.generation, each.members, partition_id), each.client)
            if owner != each.client:
                yield f"group {each.group} generation {each.generation}: {owner} and {each.client} own {partition_id}"
