"""Any `AgentExecutor` of the a2a-sdk as an agent: its code unchanged, its events recorded by this engine."""
