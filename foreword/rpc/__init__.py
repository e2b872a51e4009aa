"""gRPC as every service uses it: server life cycle, errors, identities, and long-lived links between services."""
