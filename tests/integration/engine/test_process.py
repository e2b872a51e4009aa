"""Engine processes: started, fed, stopped, and dying in every way."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foreword.engine.process import EngineOptions, EngineProcess
from foreword.errors import EngineFailure, Full, InvalidField
from foreword.settings.environment import engine_environment

ROOT = Path(__file__).parents[3]
ENTRIES = "tests.unit.engine.entries"


class Service:
    """What a service does with its engine: it collects batches and notes the end."""

    def __init__(self):
        self.batches = asyncio.Queue()
        self.ends = []

    async def start(self, entry, settings=None, **options):
        environment = engine_environment(1, {"PYTHONPATH": str(ROOT)})
        return await EngineProcess.start(
            f"{ENTRIES}:{entry}",
            settings,
            options=EngineOptions(environment, **{"start_timeout_s": 30, **options}),
            on_batch=self.batches.put_nowait,
            on_exit=self.ends.append,
        )


@asynccontextmanager
async def engine(entry, settings=None, **options):
    service = Service()
    process = await service.start(entry, settings, **options)
    try:
        yield service, process
    finally:
        await process.stop(grace_s=1.0)
        assert not alive(process.pid)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_batches_come_back_in_order_and_stop_is_orderly():
    async with engine("echo", {"model": "x"}) as (service, process):
        assert process.info["settings"] == {"model": "x"}
        assert process.info["pid"] == process.pid != os.getpid()
        for number in range(300):
            process.send([number])
        assert [await service.batches.get() for _ in range(300)] == [[number] for number in range(300)]
        assert process.is_running
    assert service.ends == [None]
    assert not process.is_running
    process.send("to nobody")
    assert await process.wait_exited() is None


async def test_big_batches():
    async with engine("echo") as (service, process):
        big = os.urandom(30_000_000)
        process.send(big)
        process.send("after")
        assert await service.batches.get() == big
        assert await service.batches.get() == "after"


async def test_an_engine_that_sends_while_it_is_sent_to():
    async with engine("flood", 200) as (service, process):
        process.send(7)
        got = [await service.batches.get() for _ in range(201)]
    assert [number for number, _ in got[:200]] == list(range(200))
    assert got[200] == 7


async def test_an_engine_finds_all_that_came_while_it_was_busy():
    async with engine("finish_what_is_there") as (service, process):
        for number in range(5):
            process.send(number)
        stopping = asyncio.create_task(process.stop(grace_s=20))
        assert await service.batches.get() == [0, 1, 2, 3, 4]
        await stopping
    assert service.ends == [None]


async def test_the_environment_keeps_threads_from_spinning(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    names = ["OMP_WAIT_POLICY", "OMP_NUM_THREADS", "GRPC_ENABLE_FORK_SUPPORT"]
    async with engine("environment", names) as (_, process):
        assert process.info == dict(zip(names, ["passive", "1", "0"], strict=True))


async def test_errors_at_the_start_come_out_as_what_they_are():
    with pytest.raises(Full, match="memory: got 12, wanted less") as caught:
        await Service().start("refuse", 12)
    assert caught.value.retry_after_ms == 5


@pytest.mark.parametrize(
    ("entry", "kind", "text"),
    [
        ("raise_at_start", EngineFailure, r"^ValueError: no weights in$"),
        ("raise_unpicklable", EngineFailure, r"^holds a function$"),
        ("exit_at_start", EngineFailure, r"^engine: ended with exit status 3; its last line: library not found$"),
        ("nothing", InvalidField, r"^engine.entry: got 'tests.unit.engine.entries:nothing', wanted a function"),
    ],
)
async def test_engines_that_cannot_start_say_why_in_one_line(entry, kind, text):
    service = Service()
    with pytest.raises(kind, match=text):
        await service.start(entry)
    assert service.ends == []


async def test_an_engine_that_is_not_ready_in_time_is_ended():
    with pytest.raises(EngineFailure, match=r"^engine: not ready in 0\.5 s \(setting start_timeout_s\)$"):
        await Service().start("never_ready", start_timeout_s=0.5)
    assert engines() == []


async def test_a_start_that_is_cancelled_leaves_nothing():
    starting = asyncio.create_task(Service().start("never_ready"))
    for _ in range(1000):
        if engines():
            break
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert engines() == []


async def test_an_exception_amid_work():
    async with engine("raise_amid_work") as (service, process):
        process.send("work")
        error = await process.wait_exited()
        assert isinstance(error, EngineFailure)
        assert error.message == "RuntimeError: forward pass failed"
        assert service.ends == [error]
        assert service.batches.get_nowait() == ["seen", "work"]


async def test_a_death_amid_work_names_the_signal_and_the_last_line():
    async with engine("die_amid_work") as (service, process):
        process.send("work")
        error = await process.wait_exited()
    assert error.message == "engine: killed by signal 9; its last line: CUDA error: device-side assert triggered"
    assert service.ends == [error]


async def test_what_the_engine_says_on_stderr_is_passed_on(capsys):
    async with engine("die_amid_work") as (_, process):
        process.send("work")
        await process.wait_exited()
    assert "device-side assert triggered\n" in capsys.readouterr().err


async def test_an_engine_that_returns_unasked_has_failed():
    async with engine("return_at_once") as (_, process):
        error = await process.wait_exited()
    assert error.message == "engine: ended with exit status 0"


async def test_an_engine_that_does_not_end_is_killed_after_the_grace_time():
    service = Service()
    process = await service.start("deaf")
    await process.stop(grace_s=0.1)
    assert service.ends == [None]
    assert not alive(process.pid)


async def test_an_engine_that_does_not_read_is_given_up_at_the_byte_cap():
    async with engine("deaf", queue_bytes=1_000_000) as (service, process):
        for _ in range(40):
            process.send(bytes(100_000))
        error = await process.wait_exited()
        assert "wanted at most 1000000; it does not read" in error.message
        assert service.ends == [error]


async def test_an_engine_that_closes_its_socket_is_ended(monkeypatch):
    monkeypatch.setattr("foreword.engine.process._EXIT_WAIT_S", 0.05)
    async with engine("hush") as (_, process):
        assert (await process.wait_exited()).message == "engine: it closed its socket"


async def test_a_batch_that_the_service_cannot_take_ends_the_engine():
    service = Service()
    service.batches.put_nowait = lambda batch: 1 / 0
    process = await service.start("echo")
    process.send(1)
    error = await process.wait_exited()
    assert error.message == "engine: its batch raised ZeroDivisionError in the service"


async def test_settings_that_do_not_pickle_start_nothing():
    with pytest.raises((AttributeError, TypeError)):
        await Service().start("echo", lambda: None)
    assert engines() == []


async def test_terminal_signals_are_the_service_s_affair():
    async with engine("echo") as (service, process):
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        process.send("still here")
        assert await service.batches.get() == "still here"


PARENT = """
import asyncio, sys
from foreword.engine.process import EngineOptions, EngineProcess
from foreword.settings.environment import engine_environment

async def main():
    options = EngineOptions(engine_environment(1))
    nothing = lambda _: None
    engine = await EngineProcess.start(sys.argv[1], None, options=options, on_batch=nothing, on_exit=nothing)
    sys.stdout.write(f"{engine.pid}\\n")
    sys.stdout.flush()
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("entry", ["echo", "deaf"])
async def test_no_orphan_is_left_when_the_service_is_killed(entry):
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, f"{ENTRIES}:{entry}", cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    pid = int(await asyncio.wait_for(parent.stdout.readline(), 120))
    assert alive(pid)
    parent.kill()
    await parent.wait()
    for _ in range(500):
        if not alive(pid):
            return
        await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the engine outlived its service")


def engines():
    """Return pids of engines that this process has started and that live."""
    ours = f"\0{os.getpid()}\0".encode()
    commands = {path.parent.name: _command(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [int(pid) for pid, command in commands.items() if b"foreword.engine" in command and command.endswith(ours)]


def _command(path):
    try:
        return path.read_bytes()
    except OSError:  # it has just ended
        return b""
