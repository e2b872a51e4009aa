"""Frames as joined entries are the frames of the contract."""

from foreword.v1 import draft_pb2, generation_pb2, target_pb2
from foreword.wire import frames, methods
from foreword.wire.frames import TargetAttachClient, build_frame, wrap
from tests.unit.wire import specimens
from tests.unit.wire.strategies import LIMITS

FRAMES = {
    target_pb2.TargetServiceAttachRequest: "commands",
    target_pb2.TargetServiceAttachResponse: "events",
    target_pb2.TargetServicePushBlocksRequest: "blocks",
    target_pb2.TargetServicePushBlocksResponse: "receipts",
    draft_pb2.DraftServiceAttachRequest: "commands",
    draft_pb2.DraftServiceAttachResponse: "events",
}


def test_field_numbers_are_the_contract_s():
    for kind, entries in FRAMES.items():
        fields = kind.DESCRIPTOR.fields_by_name
        assert fields["hello"].number == frames.HELLO_FIELD
        assert fields["liveness"].number == frames.LIVENESS_FIELD
        assert fields[entries].number == frames.ENTRY_FIELD
    verdicts = target_pb2.TargetServicePushBlocksResponse.DESCRIPTOR.fields_by_name["verdicts"]
    assert verdicts.number == frames.VERDICT_FIELD


def test_method_names_are_the_contract_s():
    files = (target_pb2.DESCRIPTOR, draft_pb2.DESCRIPTOR, generation_pb2.DESCRIPTOR)
    contract = {
        f"/{service.full_name}/{method.name}"
        for file in files
        for service in file.services_by_name.values()
        for method in service.methods
    }
    named = {value for value in vars(methods).values() if isinstance(value, str) and value.startswith("/foreword")}
    assert named <= contract
    assert contract - named <= {
        f"/{methods.GENERATION_SERVICE}/{name}" for name in ("Generate", "Abort", "GetInfo", "GetActivity")
    }


def test_a_built_frame_is_what_protobuf_would_write():
    client = TargetAttachClient(LIMITS)
    entries = [entry for message in specimens.TARGET_COMMANDS for entry in client.encode(message).entries]
    data = build_frame(entries)
    assert target_pb2.TargetServiceAttachRequest.FromString(data).SerializeToString() == data


def test_wrap_writes_lengths_of_every_size():
    for length in (0, 1, 127, 128, 16_383, 16_384, 300_000):
        block = target_pb2.Block(ids=bytes(length))
        frame = target_pb2.TargetServicePushBlocksRequest(blocks=[block])
        assert wrap(frames.ENTRY_FIELD, block.SerializeToString()) == frame.SerializeToString()
