"""Hand-written codecs for the APIs that carry the load: Produce and Fetch, and Metadata's answer.

kio reads and writes all the others, and is the oracle for these in `tests/oracle/`.
"""
