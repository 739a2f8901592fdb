"""Request as the bindings of both versions read it, before an operation gets it."""
