"""Encoding and decoding without I/O: frames, the table of APIs, schemas, record batches, records and codecs."""
