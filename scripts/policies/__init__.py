"""Checks of template.yaml: cfn-lint (valid CloudFormation), `values.yaml` (required values), `rules` (other checks)."""
