"""Tools of this repository, not part of the package: template, builds, checks, costs."""
