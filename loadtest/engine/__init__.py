"""The target's engine against transformers on the same weights, dtype and threads."""
