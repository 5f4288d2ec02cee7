"""Batches that wait for the same verification: which of them may be appended first."""

import pytest

from penstock.model.errors import OutOfOrderSequence
from penstock.storage.verification_guard import VerificationGuard


def test_the_batch_with_the_lowest_sequence_is_appended_first() -> None:
    guard = VerificationGuard(3, 20, starts_at_zero=False)
    guard.add(3, 10)
    guard.add(3, 30)
    for sequence in (20, 30):
        with pytest.raises(OutOfOrderSequence, match="arrived before 10"):
            guard.check(sequence, is_known=True)
    guard.check(10, is_known=True)


def test_a_newer_epoch_replaces_the_waiting_sequences_and_an_older_one_does_not() -> None:
    guard = VerificationGuard(3, 10, starts_at_zero=False)
    guard.add(4, 25)
    guard.add(3, 5)
    assert (guard.epoch, guard.lowest_sequence) == (4, 25)
    guard.check(25, is_known=True)


def test_a_new_producer_begins_at_zero() -> None:
    guard = VerificationGuard(0, 5, starts_at_zero=True)
    with pytest.raises(OutOfOrderSequence, match="0 is expected"):
        guard.check(5, is_known=False)
    guard.check(5, is_known=True)
