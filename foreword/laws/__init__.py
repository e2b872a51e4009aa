"""Laws: from logits to the probabilities that are really sampled from."""
