"""Reference pages of the documentation site, generated from docstrings, the command line, the schema of aion.yaml and the template."""
