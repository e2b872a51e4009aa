"""What is measured: windows with exact quantiles, the seven parts of a round, counters."""
