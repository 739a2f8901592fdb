"""One file per function of template.yaml: an AWS event comes in, a response goes out."""
