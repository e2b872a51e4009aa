"""The protocol's words, messages and digests as plain values; no gRPC, no clock."""
