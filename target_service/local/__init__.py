"""Drafters inside the target: what a session uses between two drafts, without a hop."""
