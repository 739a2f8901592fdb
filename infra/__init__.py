"""Tools of this repository for the template, builds, checks and costs. They are not part of the package."""
