"""Drives the pure core of each generation: its places at a target and a draft, its limits, its clock."""
