"""Codec of the public GetInfo: what an orchestrator serves, and with which targets and drafts."""

from __future__ import annotations

from foreword.protocol.generation import DeploymentInfo, PeerInfo
from foreword.v1 import generation_pb2
from foreword.wire.common import parsed, read_count, read_text, shorten
from foreword.wire.info import fill_model, fill_server, read_model, read_server
from foreword.wire.limits import Limits

_PEERS = 4096


def encode_info(value: DeploymentInfo, limits: Limits) -> bytes:
    """Return `value` as the bytes of GenerationServiceGetInfoResponse."""
    m = generation_pb2.GenerationServiceGetInfoResponse(
        version=value.version,
        gamma=value.gamma,
        adaptive=value.adaptive,
        gamma_max=value.gamma_max,
        protocol_min=value.protocol_min,
        protocol_max=value.protocol_max,
    )
    if value.model is not None:
        fill_model(m.model, value.model)
    for peer in value.targets:
        _fill_peer(m.targets.add(), peer, limits)
    for peer in value.drafts:
        _fill_peer(m.drafts.add(), peer, limits)
    return m.SerializeToString()


def decode_info(data: bytes, limits: Limits) -> DeploymentInfo:
    """Return the deployment in `data`; raises InvalidField or ProtocolFault."""
    m = parsed("info", generation_pb2.GenerationServiceGetInfoResponse, data)
    read_count("info.targets", len(m.targets), most=_PEERS)
    read_count("info.drafts", len(m.drafts), most=_PEERS)
    return DeploymentInfo(
        version=read_text("info.version", m.version, limits.text),
        model=read_model(m.model, limits) if m.HasField("model") else None,
        targets=tuple(_read_peer(peer, limits) for peer in m.targets),
        drafts=tuple(_read_peer(peer, limits) for peer in m.drafts),
        gamma=m.gamma,
        adaptive=m.adaptive,
        gamma_max=m.gamma_max,
        protocol_min=m.protocol_min,
        protocol_max=m.protocol_max,
    )


def _fill_peer(m: generation_pb2.PeerInfo, value: PeerInfo, limits: Limits) -> None:
    m.address, m.up, m.trusted = value.address, value.up, value.trusted
    m.last_error = shorten(value.last_error, limits.text)
    if value.info is not None:
        fill_server(m.info, value.info)
    if value.round_trip_us is not None:
        m.round_trip_us = value.round_trip_us


def _read_peer(m: generation_pb2.PeerInfo, limits: Limits) -> PeerInfo:
    return PeerInfo(
        address=read_text("peer.address", m.address, limits.text),
        up=m.up,
        info=read_server(m.info, limits) if m.HasField("info") else None,
        round_trip_us=m.round_trip_us if m.HasField("round_trip_us") else None,
        trusted=m.trusted,
        last_error=read_text("peer.last_error", m.last_error, limits.text),
    )
