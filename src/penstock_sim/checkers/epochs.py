"""Invariant 40: the epochs of a producer in a log separate its transactions."""

from collections.abc import Iterator

from penstock_sim.history import History


def inv_40_what_is_late_touches_no_later_transaction(history: History) -> Iterator[str]:
    """Epochs never decrease, and a transaction ends under a later epoch than that of its writes (KIP-890)."""
    for view in history.views:
        seen: dict[int, tuple[int, bool]] = {}
        for batch in view.batches:
            if batch.producer_id < 0:
                continue
            epoch, is_open = seen.get(batch.producer_id, (-1, False))
            is_marker = batch.marker is not None
            if batch.producer_epoch < epoch:
                yield (
                    f"{view.partition} offset {batch.base_offset}: producer {batch.producer_id} was at epoch {epoch}, "
                    f"and {'ends' if is_marker else 'writes'} something under {batch.producer_epoch}"
                )
            elif is_marker and is_open and batch.producer_epoch == epoch:
                yield (
                    f"{view.partition} offset {batch.base_offset}: a marker of epoch {epoch} ends what producer "
                    f"{batch.producer_id} wrote under the same epoch"
                )
            seen[batch.producer_id] = (max(epoch, batch.producer_epoch), batch.is_transactional and not is_marker)
