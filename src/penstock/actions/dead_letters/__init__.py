"""Dead letters that `penstock.worker` writes: list them, read them and send them back."""
