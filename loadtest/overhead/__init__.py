"""`foreword bench overhead`: the rounds of synthetic models against the formula for their step times."""

from loadtest.bench.command import bench_command
from loadtest.overhead.command import overhead

command = bench_command("overhead", overhead)

__all__ = ["command"]
