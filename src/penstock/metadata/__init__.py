"""The cluster's metadata: records in a replicated log, and the image that they produce."""
