"""What `aion doctor` looks at, a file for each side: this machine, the deployment's resources, its URL."""
