"""Step policies of the target against each other, in virtual time."""
