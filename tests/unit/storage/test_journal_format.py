import pytest
from crc32c import crc32c

from penstock.storage import journal_format
from penstock.storage.journal_format import GROUP, Entry, encode_entries, read_pass, seal_group

ENTRIES = [Entry("orders-0/00000000000000000000.log", 61, b"bytes"), Entry("orders-1/00000000000000000007.log", 0, b"")]
STRUCK = Entry("orders-0/00000000000000000000.log", 0, None)


def group(number: int, *entries: Entry, pass_id: int = 9) -> bytes:
    return seal_group(encode_entries(entries), pass_id=pass_id, number=number)


def test_groups_are_read_in_the_order_written() -> None:
    found = read_pass("journal.0", group(1, *ENTRIES) + group(2, STRUCK))
    assert found.entries == [*ENTRIES, STRUCK]
    assert (found.last_number, found.has_gaps) == (2, False)


def test_paths_that_are_not_valid_utf8_survive() -> None:
    strange = Entry("orders-\udcff/0.log", 1, b"x")
    assert read_pass("journal.0", group(1, strange)).entries == [strange]


def test_an_empty_file_has_no_groups() -> None:
    assert read_pass("journal.0", b"").entries == []
    assert read_pass("journal.0", bytes(4096)).entries == []


def test_a_torn_last_group_is_ignored() -> None:
    first, second = group(1, *ENTRIES), group(2, STRUCK)
    for size in range(len(second)):
        found = read_pass("journal.0", first + second[:size])
        assert (found.entries, found.has_gaps) == (ENTRIES, False)


def test_the_rest_of_an_older_pass_is_ignored() -> None:
    newer = group(7, *ENTRIES, pass_id=10)
    older = group(5, *ENTRIES) + group(6, STRUCK)
    for cut in range(len(older)):
        found = read_pass("journal.0", newer + older[cut:])
        assert (found.entries, found.last_number, found.has_gaps) == (ENTRIES, 7, False)


def test_a_pass_with_an_incomplete_first_group_is_empty() -> None:
    older = group(5, *ENTRIES) + group(6, STRUCK)
    torn = b"\0" * GROUP.size
    assert read_pass("journal.0", torn + older[GROUP.size :]).entries == []


def test_groups_after_a_corrupt_one_are_found_and_the_gap_is_reported() -> None:
    first, second, third = group(1, ENTRIES[0]), group(2, ENTRIES[1]), group(3, STRUCK)
    for at in range(len(second)):
        rotten = second[:at] + bytes([second[at] ^ 1]) + second[at + 1 :]
        found = read_pass("journal.0", first + rotten + third)
        assert (found.entries, found.has_gaps) == ([ENTRIES[0], STRUCK], True)


def test_a_client_cannot_forge_a_journal_group() -> None:
    forged = group(99, Entry("victim", 0, b"forged"), pass_id=8)
    torn = group(2, Entry("orders-0/0.log", 0, forged))
    for size in range(len(forged), len(torn)):
        found = read_pass("journal.0", group(1, ENTRIES[0]) + torn[:size] + bytes(len(torn) - size))
        assert found.entries == [ENTRIES[0]]


def test_bytes_that_look_like_many_long_groups_are_read_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = b"".join(GROUP.pack(b"PsJ1", 0, 28 * left, 8, 1) for left in range(999, 0, -1)) + bytes(28)
    checked: list[int] = []

    def counted(data: bytes, value: int = 0) -> int:
        checked.append(len(data))
        return crc32c(data, value)

    content = group(1, ENTRIES[0]) + headers
    monkeypatch.setattr(journal_format, "crc32c", counted)
    assert read_pass("journal.0", content).entries == [ENTRIES[0]]
    assert sum(checked) < len(content)
