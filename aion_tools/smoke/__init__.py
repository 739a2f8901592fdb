"""Checks of a deployed stack with the official A2A client, run by `aion smoke`.

report        runs the checks and prints a line for each
checks        card, replies, streams, cancellation, subscription
push          push notification configs, and deliveries to a webhook on this machine
first_reply   one streamed reply, as `aion deploy` shows it
agent         the checked agent, reached by the official client
credentials   tokens, API keys, passwords and AWS signatures of the requests
"""
