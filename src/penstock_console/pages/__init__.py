"""The pages: each module reads the cluster and returns the data of one page."""
