"""The data source `penstock`: read topics, and write them exactly once."""
