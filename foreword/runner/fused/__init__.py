"""Decoders of the Llama kind with everything between two matrix products fused, for CPUs."""
