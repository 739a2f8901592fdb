"""Lambda handlers, one module for each function of template.yaml."""
