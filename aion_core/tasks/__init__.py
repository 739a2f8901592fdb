"""Task engine: admission, turns, event log, streams, lists and limits."""
