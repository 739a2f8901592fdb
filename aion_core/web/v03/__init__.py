"""A2A v0.3: its requests and responses, converted from and to v1.0.

The modules build the SDK's models of v0.3, which takes a fifteenth of a cold start. So the bindings import them at the
first v0.3 request.
"""
