"""A developer's machine: the command `aion`, the development server, projects, packages and deployments. Never on Lambda."""
