"""Checks of template.yaml: cfn-lint for valid CloudFormation, and `rules` of our own."""
