"""The cluster's metadata: records in a replicated log, and the image they add up to."""
