"""The draft service: writes candidate blocks ahead of the target."""
