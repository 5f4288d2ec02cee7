"""The coordinator of transactions: what is decided about each transactional id, and the markers that say so."""
