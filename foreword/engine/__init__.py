"""Engine process: forward passes run in a spawned process of their own, beside the gRPC process of a service.

A forward pass in a thread of the server process costs 5 ms a message by the interpreter lock alone. The two processes
exchange pickled batches over a socket pair; they are parts of one service, so pickle never meets foreign bytes.
"""
