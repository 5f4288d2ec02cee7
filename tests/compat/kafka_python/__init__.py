"""kafka-python, a client in pure Python."""

import warnings

# The client loads its schemas in a way that is deprecated in Python 3.11; warnings are errors here.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
