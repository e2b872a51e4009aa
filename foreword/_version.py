"""The release, read by the build and by `foreword --version`."""

__version__ = "0.1.0"
