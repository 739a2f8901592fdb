"""Reader of SAM templates with parameters, conditions, references and nested stacks."""
