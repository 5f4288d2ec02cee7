"""What several handlers share: their context, replies, relaying to the controller, views of the metadata."""
