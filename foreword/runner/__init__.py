"""Cached forward passes behind one port; adapters live beside it and import their engine only when asked for."""
