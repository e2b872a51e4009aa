"""Targets and drafts as the orchestrator knows them: who is up, how busy, how fast; and the sessions on each."""
