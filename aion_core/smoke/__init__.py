"""`aion smoke`: the official client, whose code is not ours, against a deployed stack.

report        the checks, a line for each
checks        what an agent has to do, and how it is seen to have done it
push          the same of webhooks, and the webhook itself
first_reply   one streamed reply, as `aion deploy` shows it
deployment    the agent that is checked, as the official client reaches it
credentials   who asks: a token, a key, a password, a signature of AWS
"""
