"""Story of a task in sentences, for `aion why`."""
