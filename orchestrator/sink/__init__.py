"""Where committed tokens become text: one token at a time, for one choice."""
