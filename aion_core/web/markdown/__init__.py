"""Markdown of the console: texts as trees of nodes, which the page builds without parsing HTML.

route.py        the request of the page, and the process that renders
renderer.py     the program of this process
tree.py         the tree of a text
highlight.py    the colours of code
"""
