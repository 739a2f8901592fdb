"""Runner: the execution of turns in this process, under leases that heartbeats renew."""
