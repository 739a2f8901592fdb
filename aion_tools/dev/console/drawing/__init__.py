"""Drawing of an agent: its parts and their edges, read in the way of its framework.

drawing.py    the parts and edges
langgraph.py  of a graph, with its subgraphs
adk.py        of a tree of agents or a workflow, with their tools
of_agent.py   of any agent
"""
