"""The target service: verifies candidate blocks and decodes plainly."""
