"""Bytes to values and back, with no I/O: frames, the table of APIs, schemas, batches, records and codecs."""
