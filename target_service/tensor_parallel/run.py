"""The engine process of a tensor-parallel target: it starts the ranks, passes messages on to rank 0, and watches."""

from __future__ import annotations

import json

from foreword.engine.channel import EngineChannel
from foreword.errors import InvalidField
from foreword.models.local import local_folder
from foreword.models.source import parse_source
from foreword.telemetry.logs import configure_logs
from target_service.engine.models import LoggedProgress, ModelSettings
from target_service.tensor_parallel.cluster import joined_cluster
from target_service.tensor_parallel.group import rank_group
from target_service.tensor_parallel.settings import GroupedSettings
from target_service.tensor_parallel.sizes import FIELD, check_size, heads_of
from target_service.tensor_parallel.wires import Relay


def serve(channel: EngineChannel, settings: GroupedSettings) -> None:
    """Serve with a group of ranks until the service ends; raises why if a rank ends before that."""
    engine, group = settings.engine, settings.group
    configure_logs(engine.log_level, engine.log_format)
    if not group.ray_address:  # elsewhere the model need not be on this machine, and the ranks see for themselves
        check_model(engine.model, group.size)
    service, unread = channel.hand_over()
    with joined_cluster(group) as cluster:
        relay = Relay(cluster.host, service, unread)
        try:
            with rank_group(engine, group, cluster, relay.wire) as ranks:
                ranks.wait()
        finally:
            relay.close()


def check_model(settings: ModelSettings, size: int) -> None:
    """Refuse a number of ranks that the model's heads cannot be shared out to, before anything is started."""
    source = parse_source(settings.source)
    if source.synthetic is not None:
        raise InvalidField(FIELD, size, "1 for a synthetic model")
    folder = local_folder(source, settings.cache, progress=LoggedProgress())
    heads = heads_of(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    if heads is not None:
        check_size(size, heads)
