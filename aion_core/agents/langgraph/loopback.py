"""Calls of LangGraph's own server by a graph that does not run in it."""

import traceback

NO_LANGGRAPH_SERVER = "The agent needs LangGraph's own server, which is not here."
HOW_TO_DO_WITHOUT = (
    "Its code calls `langgraph_sdk.get_client()` without a URL, which works only within that server. "
    "Import the other graph and call `ainvoke`, or pass the URL of a running LangGraph server."
)


def called_own_server(error: BaseException) -> bool:
    """Return True if the error comes from a client of `langgraph_sdk` that has no URL.

    Such a client sends its requests to the application of the process around it. LangGraph's server sets this
    application; elsewhere it is None, and calling it is the TypeError at the end of the traceback.
    """
    transport = None
    for frame, _ in traceback.walk_tb(error.__traceback__ if isinstance(error, TypeError) else None):
        transport = frame.f_locals.get("self")
    return getattr(transport, "root_path", "") == "/noauth" and getattr(transport, "app", "") is None
