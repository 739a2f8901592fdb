"""The protocol as it is spoken: each operation, in each version and binding, with what it gets for good and bad params."""
