"""The controller: decisions about the cluster, one file per subject, and the driver that commits them in order."""
