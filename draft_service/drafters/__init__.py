"""Drafters behind one port: a causal LM, prompt lookup, and synthetic models."""
