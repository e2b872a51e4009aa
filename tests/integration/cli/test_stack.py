"""A stack of stand-in services: order, addresses, restarts, failures, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from foreword.client import AsyncClient
from foreword.errors import InvalidField, Unavailable
from foreword.stack.config import StackConfig
from foreword.stack.events import ServiceEvent, ServiceState
from foreword.stack.stack import Stack

FAKE = (sys.executable, str(Path(__file__).with_name("fake_service.py")))
STARTING, SERVING, EXITED = ServiceState.STARTING, ServiceState.SERVING, ServiceState.EXITED
RESTARTING, STOPPED = ServiceState.RESTARTING, ServiceState.STOPPED


class Watch:
    """Keeps what a stack reports."""

    def __init__(self) -> None:
        self.events: list[ServiceEvent] = []
        self.lines: list[tuple[str, str]] = []

    def states(self, service: str) -> list[ServiceState]:
        return [event.state for event in self.events if event.service == service]

    def told(self, service: str) -> str:
        return next(line for name, line in self.lines if name == service)


def stack(watch: Watch | None = None, **changes: object) -> Stack:
    settings = {"target": "t", "draft": "lookup", "command": FAKE, "backoff_s": 0.05, "grace_s": 5.0, **changes}
    watch = watch or Watch()
    config = StackConfig(**settings)  # type: ignore[arg-type]
    return Stack(config, on_event=watch.events.append, on_log=lambda name, line: watch.lines.append((name, line)))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"


async def gone(*pids: int) -> None:
    for _ in range(500):
        if not any(alive(pid) for pid in pids):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"one of {pids} is still there")


async def test_services_start_in_order_serve_and_are_gone_afterwards() -> None:
    watch = Watch()
    async with stack(watch, drafts=1, gamma=3, dtype="bfloat16", threads=2) as running:
        assert running.services == ("target", "draft", "orchestrator")
        pids = [running.pid(name) for name in running.services]
        async with AsyncClient(running.address) as client:
            assert (await client.generate("x")).text == "one two three four five six"
        target, draft = running.address_of("target"), running.address_of("draft")
    await gone(*(pid for pid in pids if pid is not None))
    assert watch.told("target") == "target was told --model t --dtype bfloat16 --threads 2"
    assert watch.told("draft") == "draft was told --drafter lookup --threads 2"
    assert watch.told("orchestrator") == (
        f"orchestrator was told --targets {target} --trust all --drafts {draft} --gamma 3"
    )
    for name in ("target", "draft", "orchestrator"):
        assert watch.states(name) == [STARTING, SERVING, STOPPED]
    stopped = [event.service for event in watch.events if event.state is STOPPED]
    assert stopped[0] == "orchestrator", "so that it can end what runs"


@pytest.mark.parametrize(
    ("draft", "told"),
    [
        ("synthetic:vocab=64", "draft was told --drafter synthetic --model synthetic:vocab=64"),
        ("synthetic", "draft was told --drafter synthetic --model synthetic"),
        ("some/model#layers=4", "draft was told --drafter model --model some/model#layers=4"),
        ("mixed", "draft was told --drafter mixed"),
        ("mixed:./mine", "draft was told --drafter mixed --model ./mine"),
    ],
)
async def test_a_draft_is_told_what_it_is(draft: str, told: str) -> None:
    watch = Watch()
    async with stack(watch, draft=draft):
        assert watch.told("draft") == told


async def test_several_drafts_and_none() -> None:
    config = StackConfig(drafts=3)
    assert config.draft_names == ("draft-1", "draft-2", "draft-3")
    assert StackConfig(drafts=0).draft_names == StackConfig(draft=None).draft_names == ()
    watch = Watch()
    async with stack(watch, draft=None) as running:
        assert running.services == ("target", "orchestrator")
        assert "--drafts" not in watch.told("orchestrator")
        assert "--no-local-drafts" in watch.told("orchestrator")


async def test_a_killed_service_comes_back_on_its_port() -> None:
    watch = Watch()
    async with stack(watch) as running:
        address, pid = running.address_of("draft"), running.pid("draft")
        running.kill("draft")
        await asyncio.wait_for(running.serving("draft"), 300)
        assert running.address_of("draft") == address
        assert running.pid("draft") != pid
        assert running.restarts("draft") == 1
        assert watch.states("draft") == [STARTING, SERVING, EXITED, RESTARTING, STARTING, SERVING]
        assert [e.detail for e in watch.events if e.state is EXITED] == ["ended by SIGKILL"]
        assert running.restarts("target") == 0


async def test_pauses_between_restarts_grow_to_a_cap() -> None:
    watch = Watch()
    async with stack(watch, backoff_s=0.02, longest_backoff_s=0.05) as running:
        for _ in range(4):
            running.kill("target", signal.SIGTERM)
            await asyncio.wait_for(running.serving("target"), 300)
    pauses = [event.detail for event in watch.events if event.state is RESTARTING]
    assert pauses == ["after 0.02 s", "after 0.04 s", "after 0.05 s", "after 0.05 s"]


async def test_a_service_that_crashes_by_itself_is_restarted(tmp_path: Path) -> None:
    watch = Watch()
    arguments = {"target": ("--crash-once", str(tmp_path / "crashed"))}
    async with stack(watch, arguments=arguments) as running:
        for _ in range(1000):
            if running.restarts("target"):
                break
            await asyncio.sleep(0.01)
        await asyncio.wait_for(running.serving("target"), 300)
    assert "exited with status 4" in [event.detail for event in watch.events]


async def test_a_service_that_does_not_start_ends_the_stack_with_its_last_words() -> None:
    watch = Watch()
    running = stack(watch, arguments={"draft": ("--fail",)})
    with pytest.raises(Unavailable) as caught:
        await running.start()
    assert str(caught.value) == ("draft: exited with status 1 before it served: model: got nothing, wanted something")
    assert running.services == ()
    assert watch.states("target")[-1] is STOPPED


async def test_a_start_that_takes_too_long_is_ended() -> None:
    with pytest.raises(Unavailable, match=r"target: got no service, wanted one within 0\.3 s"):
        await stack(start_timeout_s=0.3, grace_s=0.2, arguments={"target": ("--slow", "60")}).start()


async def test_a_start_can_be_cancelled(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    arguments = {"target": ("--slow", "60", "--child", str(marker))}
    task = asyncio.create_task(stack(arguments=arguments, grace_s=0.2).start())
    for _ in range(1000):
        if marker.exists() and marker.read_text():
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int(marker.read_text()))


async def test_a_service_that_ignores_sigterm_is_killed_with_its_group(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    arguments = {"target": ("--stubborn", "--child", str(marker))}
    async with stack(arguments=arguments, grace_s=0.3) as running:
        pid = running.pid("target")
    assert pid is not None
    await gone(pid, int(marker.read_text()))


async def test_a_killed_service_takes_its_children_with_it(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    async with stack(arguments={"target": ("--child", str(marker))}) as running:
        child = int(marker.read_text())
        running.kill("target")
        await gone(child)


async def test_a_stopped_process_can_be_continued_and_ended() -> None:
    async with stack() as running:
        pid = running.pid("draft")
        running.kill("draft", signal.SIGSTOP)
        running.kill("draft", signal.SIGCONT)
        running.kill("draft", signal.SIGSTOP)
        await asyncio.wait_for(running.serving("draft"), 300)
        assert pid is not None
    await gone(pid)


async def test_a_stack_knows_where_http_is() -> None:
    async with stack(draft=None) as running:
        assert running.http_address is None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with stack(draft=None, http_port=port) as running:
        assert running.http_address == f"127.0.0.1:{port}"


async def test_misuse_is_named() -> None:
    with pytest.raises(InvalidField, match="drafts: got -1, wanted a whole number from 0"):
        StackConfig(drafts=-1)
    with pytest.raises(InvalidField, match="port: got 70000"):
        StackConfig(port=70000)
    with pytest.raises(InvalidField, match="http_port: got -1"):
        StackConfig(http_port=-1)
    with pytest.raises(InvalidField, match=r"arguments: got \['router'\], wanted flags for target, draft"):
        StackConfig(arguments={"router": ()})
    with pytest.raises(Unavailable, match="wanted to start /nothing/here"):
        await stack(command=("/nothing/here",)).start()
    async with stack() as running:
        with pytest.raises(InvalidField, match="service: got 'router', wanted one of target, draft, orchestrator"):
            running.kill("router")


def test_services_do_not_outlive_the_process_that_started_them(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import asyncio, sys
        from foreword.stack.config import StackConfig
        from foreword.stack.stack import Stack
        # The real launcher around the stand-in: it watches its stdin, as every service of a stack does.
        LAUNCH = (
            "import runpy, sys, threading;"
            "from foreword.cli.child import _follow_parent;"
            "threading.Thread(target=_follow_parent, daemon=True).start();"
            "sys.argv = sys.argv[1:];"
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        async def main():
            config = StackConfig(command=(sys.executable, "-c", LAUNCH, {FAKE[1]!r}), draft=None)
            async with Stack(config) as stack:
                print(*(stack.pid(name) for name in stack.services), flush=True)
                await asyncio.sleep(600)
        asyncio.run(main())
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(1000):
        if not any(alive(pid) for pid in pids):
            return
        time.sleep(0.01)
    pytest.fail(f"one of {pids} outlived its parent")
