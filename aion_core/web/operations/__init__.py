"""Table of the A2A operations. It defines the protocol bindings of v1.0 and v0.3, and docs/openapi.yaml.

To add an operation, write a file with an `Operation` and add it to this table. Add its v0.3 conversions to
`aion_core.web.v03.operations`.
"""

from aion_core.web.operations.contexts import GET_CONTEXT, GET_CONTEXTS
from aion_core.web.operations.discovery import GET_EXTENDED_AGENT_CARD
from aion_core.web.operations.messages import SEND_MESSAGE, SEND_STREAMING_MESSAGE, SUBSCRIBE_TO_TASK
from aion_core.web.operations.operation import Operation
from aion_core.web.operations.push_configs import (
    CREATE_PUSH_CONFIG,
    DELETE_PUSH_CONFIG,
    GET_PUSH_CONFIG,
    LIST_PUSH_CONFIGS,
)
from aion_core.web.operations.tasks import CANCEL_TASK, GET_TASK, LIST_TASKS

OPERATIONS: tuple[Operation, ...] = (
    SEND_MESSAGE,
    SEND_STREAMING_MESSAGE,
    GET_TASK,
    LIST_TASKS,
    CANCEL_TASK,
    SUBSCRIBE_TO_TASK,
    CREATE_PUSH_CONFIG,
    GET_PUSH_CONFIG,
    LIST_PUSH_CONFIGS,
    DELETE_PUSH_CONFIG,
    GET_EXTENDED_AGENT_CARD,
    GET_CONTEXT,
    GET_CONTEXTS,
)
