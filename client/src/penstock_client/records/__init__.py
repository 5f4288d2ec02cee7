"""Record batches as Arrow columns and back, without a Python object for each record."""
