"""Adapter of the a2a-sdk's `AgentExecutor` to the `Agent` port.

agent.py             the adapter: one call of `execute()` is one turn
request_context.py   the RequestContext that the SDK's own server would pass
event_queue.py       queue of a turn, whose events the runner records before the executor continues
translation.py       queued events as emissions
remote_calls.py      calls of remote agents, whose questions end the turn
resumption.py        rules for the restart of an interrupted turn
"""
