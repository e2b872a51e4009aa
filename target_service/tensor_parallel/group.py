"""N actors, one rank each, that start together and end together."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from foreword.engine.child import one_line
from foreword.errors import EngineFailure, ForewordError, Full, InvalidField
from target_service.engine.run import EngineSettings
from target_service.tensor_parallel.cluster import Cluster
from target_service.tensor_parallel.rank import Place, Rank
from target_service.tensor_parallel.settings import GroupSettings
from target_service.tensor_parallel.wires import Wire

_PLACE_S = 60.0
"""How long the cluster gets to find room for the ranks."""
_TELL_S = 2.0
"""When one rank has ended, how long is waited for what the others say about it."""


class RankGroup:
    """The ranks of a target, placed on a cluster."""

    def __init__(self, actors: Sequence[Any], wire: Wire, address: str) -> None:
        """Set all ranks to work; rank 0 lets the others find each other at `address`."""
        port = ray.get(actors[0].host.remote(address))
        self._ends = [actor.work.remote(address, port, wire) for actor in actors]

    def wait(self) -> None:
        """Return when all ranks have ended because they were told to; raise why if one ends otherwise."""
        running = list(self._ends)
        while running:
            ended, running = ray.wait(running, num_returns=1)
            if self._failure(ended[0]) is not None:
                # Others notice the loss of a rank at once, and Ray a moment later; what Ray says tells more.
                ended, _ = ray.wait(self._ends, num_returns=len(self._ends), timeout=_TELL_S)
                failures = [failure for end in ended if (failure := self._failure(end)) is not None]
                raise next((one for one in failures if isinstance(one, RankDied)), failures[0])

    def _failure(self, end: Any) -> ForewordError | None:
        try:
            failure: ForewordError | None = ray.get(end)
        except RayError as error:
            return RankDied(f"rank {self._ends.index(end)} of {len(self._ends)} died: {one_line(error)}")
        return failure


class RankDied(EngineFailure):
    """The process of a rank ended, or its machine was lost."""


@contextmanager
def rank_group(settings: EngineSettings, group: GroupSettings, cluster: Cluster, wire: Wire) -> Iterator[RankGroup]:
    """Start the ranks, and leave no actor behind; raises Full if the cluster has no room for them."""
    device = _device(group)
    bundle = {"CPU": float(group.rank_cpus)} | ({"GPU": 1.0} if device == "cuda" else {})
    placed = placement_group([bundle] * group.size, strategy="PACK")
    actors: list[Any] = []
    try:
        if not placed.wait(_PLACE_S):
            raise Full(f"Ray: got no room for {group.size} ranks in {_PLACE_S:g} s, wanted {bundle} for each")
        for place in _places(placed, group.size, device):
            actors.append(_actor(place, settings, group, placed, own=cluster.is_own))
        address = "127.0.0.1" if cluster.is_own else ray.get(_address(placed).remote())
        yield RankGroup(actors, wire, address)
    except RayError as error:
        raise EngineFailure(f"Ray: {one_line(error)}") from error
    finally:
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(placed)


def _device(group: GroupSettings) -> str:
    """Return what the ranks run on."""
    if group.device in ("cpu", "cuda"):
        return group.device
    if group.device != "auto":
        raise InvalidField("device", group.device, "cpu, cuda or auto: which GPU a rank gets is up to Ray")
    gpus: float = ray.cluster_resources().get("GPU", 0.0)  # type: ignore[no-untyped-call]
    return "cuda" if gpus >= group.size else "cpu"


def _places(placed: PlacementGroup, size: int, device: str) -> list[Place]:
    nodes = placement_group_table(placed)["bundles_to_node_id"]
    neighbours = Counter(nodes.values())
    return [Place(rank, device, neighbours[nodes[rank]]) for rank in range(size)]


def _actor(place: Place, settings: EngineSettings, group: GroupSettings, placed: PlacementGroup, *, own: bool) -> Any:
    # OpenMP's waiting threads spin otherwise, which is ruinous on shared cores.
    environment = {"OMP_WAIT_POLICY": "passive", "GRPC_ENABLE_FORK_SUPPORT": "0"}
    if place.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""  # transformers takes an accelerator where it sees one
    if own:
        environment["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    options: dict[str, Any] = {
        "num_cpus": group.rank_cpus,
        "num_gpus": int(place.device == "cuda"),
        "max_restarts": 0,  # a rank alone is of no use: the group starts again
        "scheduling_strategy": _in_bundle(placed, place.rank),
        "runtime_env": {"env_vars": environment},
    }
    return ray.remote(Rank).options(**options).remote(settings, group, place)


def _address(placed: PlacementGroup) -> Any:
    """Return a task that tells the address of rank 0's machine."""
    return ray.remote(ray.util.get_node_ip_address).options(num_cpus=0, scheduling_strategy=_in_bundle(placed, 0))


def _in_bundle(placed: PlacementGroup, index: int) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(placed, placement_group_bundle_index=index)
