"""The codec between protocol values and frames: the only package that touches generated message classes."""
