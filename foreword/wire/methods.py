"""Full names of services and methods of the contract, as gRPC and the health protocol spell them."""

from __future__ import annotations

TARGET_SERVICE = "foreword.v1.TargetService"
DRAFT_SERVICE = "foreword.v1.DraftService"
GENERATION_SERVICE = "foreword.v1.GenerationService"

TARGET_ATTACH = f"/{TARGET_SERVICE}/Attach"
TARGET_PUSH_BLOCKS = f"/{TARGET_SERVICE}/PushBlocks"
TARGET_GET_INFO = f"/{TARGET_SERVICE}/GetInfo"
DRAFT_ATTACH = f"/{DRAFT_SERVICE}/Attach"
DRAFT_GET_INFO = f"/{DRAFT_SERVICE}/GetInfo"
