"""`AgentExecutor`s of the a2a-sdk behind the `Agent` port; their code stays unchanged."""
