"""State of the frameworks: LangGraph's checkpoints, ADK's sessions and artifacts, long-term memory.

langgraph/            checkpoints and stores of LangGraph
adk/                  sessions and artifacts of ADK
long_term_memory.py   long-term memory of each owner
ttl_renewal.py        renews the TTLs of a turn's items and blobs
"""
