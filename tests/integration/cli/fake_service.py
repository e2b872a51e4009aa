"""Stands for one service of a stack: writes its address file, answers as an orchestrator would, ends on SIGTERM.

Run as `fake_service.py KIND --listen host:port --address-file PATH …`; behaviour by flags of the kind: --fail (exits
before it serves), --slow SECONDS, --stubborn (ignores SIGTERM), --crash-once PATH (exits 4 after serving, the first
time), --child PATH (starts a process of its own and writes its id there).
"""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


def listen(options: argparse.Namespace, rest: list[str]) -> tuple[str, object]:
    """Return the bound address and what keeps it bound."""
    host, _, port = options.listen.rpartition(":")
    if options.kind == "orchestrator":
        return orchestrator(options.listen, drafts="--drafts" in rest)
    server = socket.create_server((host, int(port)))
    return f"{host}:{server.getsockname()[1]}", server


def orchestrator(address: str, *, drafts: bool) -> tuple[str, object]:
    """Serve as a mock orchestrator on the address that is given."""
    import dataclasses

    from foreword.testing.mock_server import MockServer, Reply, mock_info

    server = MockServer(Reply("one two three four five six", accepted=2), listen=address)
    server.info = dataclasses.replace(mock_info(), drafts=mock_info().drafts if drafts else ())
    server.start()
    return server.address, server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--listen", required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--crash-once", type=Path)
    parser.add_argument("--child", type=Path)
    parser.add_argument("--http-listen")
    parser.add_argument("--http-address-file", type=Path)
    options, rest = parser.parse_known_args()
    sys.stdout.write(f"{options.kind} was told {' '.join(rest)}\n")
    sys.stdout.flush()
    if options.fail:
        sys.exit("model: got nothing, wanted something")
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None if options.stubborn else done.set())
    if options.child is not None:
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        options.child.write_text(str(child.pid))
    time.sleep(options.slow)
    address, held = listen(options, rest)
    if options.http_address_file is not None:
        options.http_address_file.write_text(f"{options.http_listen}\n")
    part = options.address_file.with_suffix(".part")
    part.write_text(address + "\n")
    part.replace(options.address_file)
    if options.crash_once is not None and not options.crash_once.exists():
        options.crash_once.touch()
        sys.exit(4)
    done.wait()
    del held


main()
