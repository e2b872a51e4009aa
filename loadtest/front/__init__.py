"""`foreword bench front`: what HTTP adds to gRPC, before the first token and after it."""
