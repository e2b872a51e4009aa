"""Distillation: makes a draft for a given target out of text that the target writes."""
