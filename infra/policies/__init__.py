"""Checks of template.yaml: cfn-lint for valid CloudFormation, `values.yaml` for required values, `rules` for the rest."""
