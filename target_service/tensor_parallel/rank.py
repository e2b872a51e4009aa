"""One rank: an actor whose one long call joins the others, loads a part of the model, and runs passes until the end."""

from __future__ import annotations

import os
import socket
import traceback
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from foreword.engine.channel import EngineChannel, EngineStopped
from foreword.engine.child import one_line
from foreword.errors import EngineFailure, ForewordError
from foreword.telemetry.logs import configure_logs
from target_service.engine.run import EngineSettings, serve_model
from target_service.tensor_parallel.load import LoadedPart, load_part
from target_service.tensor_parallel.model import TensorParallelModel, follow
from target_service.tensor_parallel.ranks import Ranks
from target_service.tensor_parallel.settings import STALLED_S, GroupSettings
from target_service.tensor_parallel.wires import Use, Wire


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank is."""

    rank: int
    device: str
    """cpu or cuda; a rank sees one GPU, which Ray gave it."""
    neighbours: int
    """Ranks on the same machine, itself included."""


class Rank:
    """The class of the actors."""

    def __init__(self, settings: EngineSettings, group: GroupSettings, place: Place) -> None:
        self._settings = settings
        self._group = group
        self._place = place
        self._store: TCPStore | None = None

    def host(self, address: str) -> int:
        """Open, on rank 0, the store through which the ranks find each other; return its port at `address`."""
        listener = socket.create_server((address, 0))
        port = int(listener.getsockname()[1])
        self._store = TCPStore(
            address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        return port

    def work(self, address: str, port: int, wire: Wire) -> ForewordError | None:
        """Be a rank of the group until its end; return why it ended, None if it was told to."""
        os.dup2(wire.connect(Use.STDERR).detach(), 2)
        configure_logs(self._settings.log_level, self._settings.log_format)
        try:
            self._work(self._store or TCPStore(address, port, is_master=False), wire)
        except EngineStopped:
            return None
        except ForewordError as error:
            return error
        except Exception as error:
            traceback.print_exc()
            return EngineFailure(one_line(error))
        return None

    def _work(self, store: TCPStore, wire: Wire) -> None:
        group = self._group
        torch.set_num_threads(group.threads or max(1, (os.cpu_count() or 1) // self._place.neighbours))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self._place.device == "cuda" else "gloo",
            store=store,
            rank=self._place.rank,
            world_size=group.size,
            timeout=timedelta(seconds=group.start_timeout_s),
        )
        ranks = Ranks(stalled_s=STALLED_S)
        model = replace(self._settings.model, device=self._place.device)
        part = load_part(model, ranks, neighbours=self._place.neighbours)
        if self._place.rank == 0:
            _lead(part, ranks, self._settings, wire)
        else:
            follow(part.model, ranks, part.widths)


def _lead(part: LoadedPart, ranks: Ranks, settings: EngineSettings, wire: Wire) -> None:
    """Run the engine on rank 0; the others end with it, unless it ends by a failure, after which they may not hear."""
    model = TensorParallelModel(part.model, ranks, part.widths)
    try:
        serve_model(EngineChannel(wire.connect(Use.ENGINE)), settings, part.loaded(model))
    except EngineStopped:
        model.dismiss()
