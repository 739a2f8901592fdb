"""Messages in v0.3's HTTP+JSON, in both of its forms.

In the proto file's configuration, a missing `blocking` means false. A message without a configuration is blocking.
"""

import base64
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import types as v03

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.types import SendMessageRequest
from aion_core.web.request.body import StrictRequest
from aion_core.web.request.params import read_params
from aion_core.web.v03.http_forms import decodes_files_twice, has_kinds
from aion_core.web.v03.jsonrpc_types import core_request, read_v03
from aion_core.web.v03.proto import from_proto


async def read_message(request: StrictRequest) -> SendMessageRequest:
    """Parse a v0.3 HTTP+JSON body into v1.0's SendMessage request. Raises InvalidParamsError with the invalid field."""
    return await request.convert(_message_request, await request.json_object(), decodes_files_twice(request))


def _message_request(body: dict[str, Any], encodes_files_twice: bool) -> SendMessageRequest:
    if has_kinds(body.get("message")):
        params = read_v03(body, v03.MessageSendParams)
    else:
        read = read_params(body, pb03.SendMessageRequest)
        if read.request.message_id and not read.request.content:
            field = "message.content"
            raise invalid_params(f"{field} is empty: give it at least one part, such as a text.", field)
        for index, part in enumerate(read.request.content):
            if part.WhichOneof("part") is None:
                field = f"message.content[{index}]"
                raise invalid_params(f"{field} has no content: give it one of text, file or data.", field)
            if part.HasField("file") and part.file.WhichOneof("file") is None:
                field = f"message.content[{index}].file"
                raise invalid_params(f"{field} has no content: give it fileWithBytes or fileWithUri.", field)
            content = part.file.file_with_bytes
            if content and not (encodes_files_twice and _is_base64(content)):
                part.file.file_with_bytes = base64.b64encode(content)
        return from_proto(read, _core_request_of)
    return _core_request_of(params)


def _core_request_of(params: v03.MessageSendParams) -> SendMessageRequest:
    return core_request(v03.SendMessageRequest(id="", params=params))


def _is_base64(content: bytes) -> bool:
    """Return True if the decoded bytes of a file are base64 again, so that the Python SDK may have encoded them.

    Other clients, such as curl, send the same headers, and encode files once.
    """
    try:
        return base64.b64encode(base64.b64decode(content, validate=True)) == content
    except ValueError:
        return False
