"""Hand-written codecs for the most frequent APIs: Produce, Fetch, Metadata responses, offsets and heartbeats.

Schemas from kio describe all other APIs, and kio is the oracle for these in `tests/oracle/`.
"""
