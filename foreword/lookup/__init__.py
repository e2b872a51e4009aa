"""Prompt lookup's index, for a draft service and for a target's own drafter."""
