"""Draft-ahead: which outcomes of a block are worth preparing for, and when; values and estimates, no models."""
