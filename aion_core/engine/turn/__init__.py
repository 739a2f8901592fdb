"""A turn: how it begins, records events, is suspended and ends.

start.py       it takes the lease, or takes over a dead holder's turn
progress.py    it records an event, or is suspended
end.py         it ends, or its task is canceled
store.py       TurnStore applies the rules, each in one transaction
"""
