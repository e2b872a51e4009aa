"""Models: what users name, where it is fetched from, how it is loaded, and its tokenizer."""
