"""Changes: each module plans and executes the changes of one kind of object."""
