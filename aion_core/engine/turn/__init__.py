"""A turn: how it begins, records events, is suspended, waits and ends.

start.py       it takes the lease, or takes over a dead holder's turn
progress.py    it records an event, is suspended for another process, or waits
wait.py        how long it waits, and when the next look is
end.py         it ends, or its task is canceled
sleeps.py      sleeps of the agent in a running turn
store.py       TurnStore applies the rules, each in one transaction
"""
