"""Answers to requests of v0.3, in JSON-RPC and in HTTP+JSON."""

from typing import Any

from starlette.responses import Response

from aion_core.web.json_answer import JsonAnswer
from aion_core.web.operations.operation import Operation
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.body import StrictRequest
from aion_core.web.request.call_context import CallContextBuilder, tenant_of
from aion_core.web.sse import EventStream, RequestId, StreamFormat
from aion_core.web.v03.http_forms import decodes_files_twice, prefers_kinds
from aion_core.web.v03.jsonrpc_types import dump, read_v03
from aion_core.web.v03.operations import CONVERSIONS
from aion_core.web.v03.proto import with_files_encoded_once
from aion_core.web.v03.stream import REST_V03, REST_V03_FILES_ONCE, REST_V03_KINDS, jsonrpc_v03


async def answer_jsonrpc(
    operation: Operation,
    services: AgentServices,
    builder: CallContextBuilder,
    request_id: RequestId,
    body: dict[str, Any],
    request: StrictRequest,
) -> Response:
    """Execute an operation for a JSON-RPC request of v0.3 and return its response. Raises the protocol's errors."""
    conversion = CONVERSIONS[operation.name]
    if conversion.model is None:
        params = body.get("params", {})
        # Read the tenant for Aion's own methods, because v0.3 itself has no tenants.
        context = builder.build_in(request, tenant_of(params))
    else:
        # The SDK's models require an id, but clients such as pydantic-ai's fasta2a omit it or send null.
        identified = body if request_id is not None else {**body, "id": ""}
        params = await request.convert(read_v03, identified, conversion.model)
        context = builder.build(request)
    read = await request.convert(conversion.read, params)
    if operation.stream:
        batches = operation.stream(services, read, context)
        return EventStream(await anext(batches, []), batches, jsonrpc_v03(request_id))
    assert operation.run is not None  # noqa: S101
    result = conversion.write(await operation.run(services, read, context))
    return JsonAnswer({"id": request_id, "jsonrpc": "2.0", "result": dump(result)})


async def answer_http(
    operation: Operation, services: AgentServices, builder: CallContextBuilder, request: StrictRequest
) -> Response:
    """Execute an operation for an HTTP+JSON request of v0.3 and return its response. Raises the protocol's errors."""
    conversion = CONVERSIONS[operation.name]
    assert conversion.read_http is not None  # noqa: S101  # set if the operation has a route
    context = builder.build(request)
    read = await conversion.read_http(request)
    if operation.stream:
        batches = operation.stream(services, read, context)
        return EventStream(await anext(batches, []), batches, _stream_format(request))
    assert operation.run is not None  # noqa: S101
    result = await operation.run(services, read, context)
    if conversion.prefers_kinds(request):
        written = dump(conversion.write(result))
    else:
        written = conversion.write_http(result)
        written = written if decodes_files_twice(request) else with_files_encoded_once(written)
    return JsonAnswer({} if written is None else written)


def _stream_format(request: StrictRequest) -> StreamFormat:
    if prefers_kinds(request):
        return REST_V03_KINDS
    return REST_V03 if decodes_files_twice(request) else REST_V03_FILES_ONCE
