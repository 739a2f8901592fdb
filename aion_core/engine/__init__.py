"""Engine: admission of messages, turns under leases, event logs, streams, deliveries, lists and limits."""
