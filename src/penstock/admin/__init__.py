"""The cluster as an administrator's program asks it: any request of the protocol, over plain blocking connections."""
