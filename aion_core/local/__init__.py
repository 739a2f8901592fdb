"""Local AWS: the template's table, queues, bucket and key in an emulator, and pollers that invoke its functions."""
