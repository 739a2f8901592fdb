"""Reference pages of the documentation site, generated from docstrings and the command line."""
