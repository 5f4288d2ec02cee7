"""The tests. Run from the checkout's root, so that `tests.support` can be imported."""
