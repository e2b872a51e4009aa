"""A distilled draft on disk: `draft.json` says what it is, `draft.safetensors` holds what the target does not have."""
