"""The orchestrator: owns sessions, decides what is committed, serves clients."""
