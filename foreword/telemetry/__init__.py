"""Logs and metrics, the same in every process."""
