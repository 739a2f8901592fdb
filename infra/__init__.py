"""Tools of this repository that no function contains: builds, checks, costs."""
