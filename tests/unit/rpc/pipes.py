"""A stream in memory, both ends, with taps for tests."""

import asyncio

from foreword.rpc.link import Link, LinkOptions
from foreword.wire.frames import TargetAttachClient, TargetAttachServer
from foreword.wire.limits import Limits

LIMITS = Limits(chunk=8)
FAST = LinkOptions(liveness_s=0.02, handshake_s=5.0)


class End:
    """One end: a Transport over two queues; `frames` are those written here."""

    def __init__(self, incoming, outgoing):
        self._incoming = incoming
        self._outgoing = outgoing
        self.frames = []
        self.open = asyncio.Event()
        self.open.set()
        self.ends_with_finish = False

    async def read(self):
        return await self._incoming.get()

    async def write(self, frame):
        await self.open.wait()
        self.frames.append(frame)
        self._outgoing.put_nowait(frame)

    async def finish(self):
        self._outgoing.put_nowait(None)
        return self.ends_with_finish

    async def serve(self, link):
        """Run a server's link; the stream ends with it."""
        try:
            return await link.run(self)
        finally:
            self._outgoing.put_nowait(None)


def pipe():
    """Return the client's and the server's end of a stream."""
    there, back = asyncio.Queue(), asyncio.Queue()
    client, server = End(back, there), End(there, back)
    server.ends_with_finish = True
    return client, server


class Recorder:
    """A handler that remembers what it is told."""

    def __init__(self, on_received=None):
        self.ups = []
        self.batches = []
        self.downs = []
        self.came_up = asyncio.Event()
        self.went_down = asyncio.Event()
        self.got = asyncio.Queue()
        self._on_received = on_received

    def up(self, link):
        self.ups.append(link)
        self.came_up.set()

    def received(self, link, entries):
        self.batches.append(list(entries))
        for entry in entries:
            self.got.put_nowait(entry)
        if self._on_received is not None:
            self._on_received(link, entries)

    def down(self, link, error):
        self.downs.append(error)
        self.went_down.set()


def client_link(handler, options=FAST, **kwargs):
    return Link(TargetAttachClient(LIMITS), handler, instance="orchestrator-1", options=options, **kwargs)


def server_link(handler, options=FAST, **kwargs):
    return Link(TargetAttachServer(LIMITS), handler, instance="target-1", options=options, **kwargs)
