"""Protocol tables: each operation in each version and binding, with the expected response to valid and invalid params."""
