"""The engine process: it owns the drafter and every session's state."""
