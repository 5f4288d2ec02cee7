"""The data source `penstock`: reads topics, and writes them exactly once."""
