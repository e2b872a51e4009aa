"""The engine of a target: the process that owns the runner, the sessions and the steps."""
