"""How many candidates a block gets: what rounds cost and bring, estimated; the best choice; and what is made of it."""
