"""What an operator's commands read and change in a deployment: its stack, tasks, webhooks and dead letters."""
