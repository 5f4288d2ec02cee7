"""kafka-python, a client in plain Python."""

import warnings

# The client reads its schemas in a way that Python 3.11 calls deprecated; here warnings are errors.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
