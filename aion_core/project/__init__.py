"""A project that depends on aion-lambda: made, upgraded, and given more packages."""
