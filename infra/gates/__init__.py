"""What a template has to keep to, where neither SAM nor cfn-lint would notice: a module for each kind of promise."""
