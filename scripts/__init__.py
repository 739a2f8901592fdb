"""Tools of this repository for the template, builds, checks and costs. aion-lambda is published without them."""
