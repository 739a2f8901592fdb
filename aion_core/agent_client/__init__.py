"""Client of other agents, hardened against hostile servers. The commands and the calls of agents both use it.

limits.py     the limits of answers, for commands and for agents
bounded.py    limits for the answers of an HTTP client: bytes, time, levels and values
documents.py  an agent's card and other small documents
checked.py    the SDK's client, with one kind of error for all unusable answers
origin.py     the origin of a URL, and credentials for one origin only
json_size.py  levels and values of a JSON text
"""
