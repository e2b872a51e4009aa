"""Channel and server options of every gRPC connection."""

from __future__ import annotations

LARGEST_MESSAGE_BYTES = 64 << 20
"""A frame never comes near it; a peer that sends more is cut off."""

Options = tuple[tuple[str, int], ...]

_SIZES: Options = (
    ("grpc.max_send_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES),
)


def channel_options() -> Options:
    """Options of a client channel: keepalive each 30 s also without calls, quick reconnects.

    gRPC's own reconnect back-off (up to 120 s) is kept short because the dialler has one of its own.
    """
    return (
        *_SIZES,
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.use_local_subchannel_pool", 1),
    )


def server_options() -> Options:
    """Options of a server: allow the clients' keepalive, and refuse a port that another server holds."""
    return (
        *_SIZES,
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.so_reuseport", 0),
    )
