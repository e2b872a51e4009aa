"""Engines for tests, started in processes of their own."""

import os
import signal
import sys
import time

from foreword.errors import Full


def echo(channel, settings):
    """Send every batch back, in order."""
    channel.ready({"settings": settings, "pid": os.getpid()})
    while True:
        for batch in channel.receive():
            channel.send(batch)


def environment(channel, names):
    """Tell what the environment says."""
    channel.ready({name: os.environ.get(name) for name in names})
    channel.receive()


def refuse(channel, settings):
    raise Full(f"memory: got {settings}, wanted less", retry_after_ms=5)


def raise_at_start(channel, settings):
    raise ValueError("no weights in\nthis folder")


def _with_function():
    error = Full("holds a function")
    error.callback = lambda: None
    return error


def raise_unpicklable(channel, settings):
    raise _with_function()


def raise_amid_work(channel, settings):
    channel.ready()
    batches = channel.receive()
    channel.send(["seen", *batches])
    raise RuntimeError("forward pass failed")


def die_amid_work(channel, settings):
    channel.ready()
    channel.receive()
    sys.stderr.write("CUDA error: device-side assert triggered\n\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def exit_at_start(channel, settings):
    sys.stderr.write("library not found\n")
    sys.stderr.flush()
    os._exit(3)


def never_ready(channel, settings):
    time.sleep(600)


def deaf(channel, settings):
    """Be ready, then neither read nor end."""
    channel.ready()
    time.sleep(600)


def hush(channel, settings):
    """Close the socket and go on running."""
    channel.ready()
    channel._socket.close()
    time.sleep(600)


def return_at_once(channel, settings):
    channel.ready()


def flood(channel, settings):
    """Send a lot without being asked, then what was received."""
    channel.ready()
    for number in range(settings):
        channel.send((number, bytes(100_000)))
    channel.send(sum(channel.receive()))
    channel.receive()


def finish_what_is_there(channel, settings):
    """Wait until the end has been asked for, then show that batches before it are not lost."""
    channel.ready()
    time.sleep(0.3)
    batches = channel.receive()
    channel.send(batches)
    channel.receive()
