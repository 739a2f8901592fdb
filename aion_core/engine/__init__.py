"""The engine: it admits messages, runs their turns under leases, and keeps each task as a log of events.

Rules are pure functions and stand beside the store that applies them. Read it in this order:

    service.py          the A2A operations on tasks: send, stream, subscribe, get, cancel
    call.py             the context of one A2A call: caller, agent, headers, deadline
    isolation.py        another caller's task, and another agent's, looks like one that does not exist
    records.py          heads of tasks, turns, leases, log entries and streamed text
    outcomes.py         outcomes of the stores' operations
    admission/          a message is stored once, and its turn runs or waits
    resume_input.py     interrupts of a task, and whether a message answers them
    context/            a conversation: its lease, running turn and waiting turns
    turn/               a turn begins, records events, is suspended, waits and ends
    task/               a task: its states, head and event log, and the task as the fold of its log
    stored_tasks.py     reads of the stored tasks; the stores of messages and of turns build on it
    task_store.py       the store of messages and the store of turns in one object
    runner/             turns run in this process, under leases that heartbeats renew
    process/            the process around turns: deadline, background turns, guards around agents' code
    agent.py            the port of agents: a turn's input, emissions and endings
    agent_profile.py    what an agent's code says about the agent, for its card and its callers
    agent_options.py    options of an agent in aion.yaml
    answer.py           the answer of a turn: a status message, an artifact, or a Message in place of the task
    stream/             a task's events and text, live in this process and read from the log in others
    cancellation.py     a cancellation is recorded at once, whichever process runs the task
    remote_calls/       calls of remote agents: stored before they are sent, and canceled with their task
    queues.py           wake-up messages and the queues that carry them
    wake_ups.py         a wake-up message follows a commit
    timers.py           timers in the table, for wake-up messages that were lost
    sweep.py            finds the expired timers
    push_config.py      a client's webhook
    delivery/           progress of the deliveries to webhooks; aion_core/push posts them
    listing/            lists of tasks, contexts and messages
    limits/             counts per caller: requests, streams, open tasks; refused in aion_core/web/middleware/rate_limit.py,
                        aion_core/web/stream_limits.py and admission/quotas.py
    fenced_writes.py    writes of an agent's state (aion_core/state), refused to a holder that lost its lease
"""
