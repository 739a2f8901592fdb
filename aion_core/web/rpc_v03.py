"""JSON-RPC of v0.3: the SDK's adapter, but for what a client would stumble over; each override says what that is."""

from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.server.context import ServerCallContext
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher  # noqa: F401  # before the adapter: see there
from a2a.utils.errors import InvalidParamsError
from starlette.requests import Request
from starlette.responses import JSONResponse

from aion_core.web.cards import Handler03
from aion_core.web.errors import rpc_error
from aion_core.web.request_context import V03, VERSION, CallContextBuilder
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.sse import RequestId, jsonrpc_v03, open_stream
from aion_core.web.v03 import core_request, read_v03

# The SDK's dispatcher imports this adapter; imported the other way round the two make a circle.
from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter  # isort: skip

EXTENDED_CARD = "agent/getAuthenticatedExtendedCard"


class V03Adapter(JSONRPC03Adapter):
    """The v0.3 methods, over the same handler; v0.3 knows no tenants."""

    def __init__(self, handler: AionRequestHandler, builder: CallContextBuilder) -> None:
        super().__init__(handler, builder)
        self._handler = handler
        self.handler = Handler03(handler)

    async def handle_request(self, request_id: RequestId, method: str, body: dict[str, Any], request: Request) -> Any:
        """Answer a v0.3 request: bad params are -32602 here, -32600 in the SDK."""
        # The SDK's annotation does not say of what they are classes.
        model: Any = self.METHOD_TO_MODEL[method]
        try:
            read_v03(body, model)
        except InvalidParamsError as error:
            return self._generate_error_response(request_id, error)
        return await super().handle_request(request_id, method, body, request)

    def _generate_error_response(self, request_id: RequestId, error: Any) -> JSONResponse:
        # The SDK's says what an unexpected exception said, and leaves the typed details out.
        return rpc_error(request_id, error)

    async def _process_non_streaming_request(
        self, request_id: RequestId, request_obj: Any, context: ServerCallContext
    ) -> JSONResponse:
        # The SDK looks for the version in the header once more.
        context.state["headers"] = {**context.state["headers"], VERSION: V03}
        if isinstance(request_obj, v03.SendMessageRequest):
            core_request(request_obj)
        response: JSONResponse = await super()._process_non_streaming_request(request_id, request_obj, context)
        if isinstance(request_obj, v03.DeleteTaskPushNotificationConfigRequest):
            # The SDK drops the result, which is null, and JSON-RPC wants either a result or an error.
            return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": None})
        return response

    async def _process_streaming_request(
        self, request_id: RequestId, request_obj: Any, context: ServerCallContext
    ) -> Any:
        if isinstance(request_obj, v03.TaskResubscriptionRequest):
            core: Any = conversions.to_core_subscribe_to_task_request(request_obj)
        else:
            core = core_request(request_obj)
        return await open_stream(self._handler.batches(core, context), jsonrpc_v03(request_id))
