"""Reasons for the failure of a turn that starts over, under `resume: restart`, for agents of every framework."""

MAX_RUNS = 3
"""Maximum number of runs of a turn under `resume: restart`. Otherwise a turn longer than its process's lifetime would
restart forever."""

TOO_MANY_RUNS = (
    f"The turn was run {MAX_RUNS} times from its beginning and did not end. It may take longer than its process lives, or "
    "end its process: read the server's log before you send the message again with a new id."
)
NO_ANSWER_AFTER_RESTART = (
    "The server stopped during this turn. The turn ran again from its message, and ended without an answer. "
    "Send the message again with a new id."
)
