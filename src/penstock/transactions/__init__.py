"""The transaction coordinator: the state of each transactional id, and the markers that end transactions."""
