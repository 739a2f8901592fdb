"""Every seam of aion, one Protocol each: what the core needs from outside, and what it is promised.

An adapter need not inherit anything. One contract suite (`tests/contract`) runs over each adapter of a port, and a
promise made here has its test there.
"""

from aion_core.ports.agent import (
    AfterCrash,
    Agent,
    AnswerAs,
    Asked,
    Asks,
    Chunk,
    Emission,
    Emitted,
    Ending,
    History,
    Noted,
    Paused,
    Reply,
    ReplyAs,
    Said,
    Stepped,
    Typing,
)
from aion_core.ports.api_keys import (
    ApiKeys,
    KeyRecord,
)
from aion_core.ports.bells import (
    Bell,
    Bells,
)
from aion_core.ports.blobs import (
    Blobs,
)
from aion_core.ports.cipher import (
    Cipher,
)
from aion_core.ports.clock import (
    Clock,
)
from aion_core.ports.log import (
    MAX_WAITING,
    Begun,
    Busy,
    ContextKey,
    Cursor,
    Delta,
    DeltaBatch,
    Ended,
    FollowUp,
    Head,
    Held,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Numbered,
    Overdue,
    Repeated,
    TaskKey,
    TaskStore,
    Turn,
    Waiting,
    WhenBusy,
)
from aion_core.ports.task_list import (
    Place,
    TaskFilter,
    TaskList,
)

__all__ = [
    "MAX_WAITING",
    "AfterCrash",
    "Agent",
    "AnswerAs",
    "ApiKeys",
    "Asked",
    "Asks",
    "Begun",
    "Bell",
    "Bells",
    "Blobs",
    "Busy",
    "Chunk",
    "Cipher",
    "Clock",
    "ContextKey",
    "Cursor",
    "Delta",
    "DeltaBatch",
    "Emission",
    "Emitted",
    "Ended",
    "Ending",
    "FollowUp",
    "Head",
    "Held",
    "History",
    "Interrupted",
    "KeyRecord",
    "Lease",
    "Log",
    "NewTask",
    "Noted",
    "Numbered",
    "Overdue",
    "Paused",
    "Place",
    "Repeated",
    "Reply",
    "ReplyAs",
    "Said",
    "Stepped",
    "TaskFilter",
    "TaskKey",
    "TaskList",
    "TaskStore",
    "Turn",
    "Typing",
    "Waiting",
    "WhenBusy",
]
