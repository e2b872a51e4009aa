"""Codec of GetInfo: what a service is, which model it runs, what its steps cost."""

from __future__ import annotations

from typing import Any

from foreword.errors import InvalidField
from foreword.protocol.info import CostPoint, DraftInfo, ModelInfo, ServerInfo
from foreword.v1 import common_pb2, draft_pb2, target_pb2
from foreword.wire.common import DRAFTERS, parsed, read_count, read_enum, read_text
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_u32, unpack_ids


def encode_target_info(value: ServerInfo) -> bytes:
    """Return `value` as the bytes of TargetServiceGetInfoResponse."""
    m = target_pb2.TargetServiceGetInfoResponse()
    fill_server(m.info, value)
    return m.SerializeToString()


def decode_target_info(data: bytes, limits: Limits) -> ServerInfo:
    """Return what a target says it is; raises InvalidField or ProtocolFault."""
    m = _parse(target_pb2.TargetServiceGetInfoResponse, data, limits)
    return read_server(m.info, limits)


def encode_draft_info(value: DraftInfo) -> bytes:
    """Return `value` as the bytes of DraftServiceGetInfoResponse."""
    m = draft_pb2.DraftServiceGetInfoResponse()
    fill_server(m.info, value.server)
    m.gamma_max, m.vocabulary_map_digest = value.gamma_max, value.vocabulary_map_digest
    return m.SerializeToString()


def decode_draft_info(data: bytes, limits: Limits) -> DraftInfo:
    """Return what a draft says it is; raises InvalidField or ProtocolFault."""
    m = _parse(draft_pb2.DraftServiceGetInfoResponse, data, limits)
    return DraftInfo(
        server=read_server(m.info, limits),
        gamma_max=read_count("info.gamma_max", m.gamma_max, most=limits.gamma),
        vocabulary_map_digest=read_text("info.vocabulary_map_digest", m.vocabulary_map_digest, limits.text),
    )


def fill_server(m: common_pb2.ServerInfo, value: ServerInfo) -> None:
    """Write `value` into `m`."""
    m.SetInParent()
    if value.model is not None:
        fill_model(m.model, value.model)
    m.instance, m.address, m.version = value.instance, value.address, value.version
    m.protocol_min, m.protocol_max = value.protocol_min, value.protocol_max
    m.tensor_parallel_size, m.sessions, m.name = value.tensor_parallel_size, value.sessions, value.name
    for point in value.cost_curve:
        m.cost_curve.add(rows=point.rows, context=point.context, step_us=point.step_us)
    if value.drafter is not None:
        m.drafter = int(value.drafter)  # type: ignore[assignment]
    if value.local_drafter is not None:
        m.local_drafter = int(value.local_drafter)  # type: ignore[assignment]
    if value.gamma_max is not None:
        m.gamma_max = value.gamma_max


def read_server(m: common_pb2.ServerInfo, limits: Limits) -> ServerInfo:
    """Return the service's description in `m`; raises InvalidField."""
    if len(m.cost_curve) > limits.cost_points:
        raise InvalidField("info.cost_curve", len(m.cost_curve), f"at most {limits.cost_points} points")
    return ServerInfo(
        model=read_model(m.model, limits) if m.HasField("model") else None,
        instance=read_text("info.instance", m.instance, limits.text),
        address=read_text("info.address", m.address, limits.text),
        version=read_text("info.version", m.version, limits.text),
        protocol_min=m.protocol_min,
        protocol_max=m.protocol_max,
        tensor_parallel_size=m.tensor_parallel_size,
        cost_curve=tuple(CostPoint(p.rows, p.context, p.step_us) for p in m.cost_curve),
        drafter=read_enum("info.drafter", DRAFTERS, m.drafter) if m.drafter else None,
        sessions=m.sessions,
        name=read_text("info.name", m.name, limits.text),
        local_drafter=read_enum("info.local_drafter", DRAFTERS, m.local_drafter) if m.local_drafter else None,
        gamma_max=read_count("info.gamma_max", m.gamma_max, most=limits.gamma) if m.HasField("gamma_max") else None,
    )


def fill_model(m: common_pb2.ModelInfo, value: ModelInfo) -> None:
    """Write `value` into `m`."""
    m.SetInParent()
    m.name, m.source, m.dtype = value.name, value.source, value.dtype
    m.weights_digest, m.tokenizer_digest = value.weights_digest, value.tokenizer_digest
    m.vocabulary_size, m.longest_context = value.vocabulary_size, value.longest_context
    m.eos_ids = pack_u32("model.eos_ids", value.eos_ids)
    m.chat_template, m.made_for = value.chat_template, value.made_for


def read_model(m: common_pb2.ModelInfo, limits: Limits) -> ModelInfo:
    """Return the model's description in `m`; raises InvalidField."""
    return ModelInfo(
        name=read_text("model.name", m.name, limits.text),
        source=read_text("model.source", m.source, limits.text),
        weights_digest=read_text("model.weights_digest", m.weights_digest, limits.text),
        tokenizer_digest=read_text("model.tokenizer_digest", m.tokenizer_digest, limits.text),
        vocabulary_size=m.vocabulary_size,
        longest_context=m.longest_context,
        dtype=read_text("model.dtype", m.dtype, limits.text),
        eos_ids=unpack_ids("model.eos_ids", m.eos_ids, most=limits.law_ids, vocabulary=limits.vocabulary),
        chat_template=m.chat_template,
        made_for=read_text("model.made_for", m.made_for, limits.text),
    )


def _parse(kind: Any, data: bytes, limits: Limits) -> Any:
    if len(data) > limits.info_bytes:
        raise InvalidField("info", len(data), f"at most {limits.info_bytes} bytes")
    return parsed("info", kind, data)
