"""Authentication and authorization of callers.

principal.py       an authenticated caller
tenants.py         tenants, and the owner of a tenant's tasks
credentials.py     credentials of a request
scheme.py          base class of the schemes
schemes/           the schemes, one a file
api_keys.py        API keys in the table
policy.py          what a caller of an agent must fulfil
decision.py        whether a caller may use an agent
authenticator.py   verifies credentials, and grants or refuses access
deployment.py      the policies of a deployment
"""
