"""The deployment's manifests: what they must hold, and faults that must be found in them."""
