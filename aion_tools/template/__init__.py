"""SAM templates: their reader, and the stacks that a project's template nests."""
