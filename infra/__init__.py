"""What deploys the project, and what stands in for AWS on a laptop."""
