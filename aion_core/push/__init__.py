"""Push notifications: registration of webhooks, delivery of events, and protection against SSRF."""
