"""SAM template reader: parameters, conditions, references and nested stacks."""
