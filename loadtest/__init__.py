"""Load, sweeps and comparisons: how fast the whole is, and why."""
