"""Address of a task in the console of a development server."""

from urllib.parse import quote, urlencode


def console_address(base_url: str, agent: str, context_id: str, task_id: str) -> str:
    """Return the URL that shows the task's conversation in the console."""
    return f"{base_url}/agents/{quote(agent, safe='')}/#{urlencode({'context': context_id, 'task': task_id})}"
