"""Remedies of exceptions raised while an agent is loaded."""

from pathlib import Path

from aion_core.loading.load_errors.import_remedies import import_remedy, shadowing_remedy
from aion_core.loading.load_errors.missing_variables import variable_remedy
from aion_core.loading.load_errors.newer_python import newer_python_remedy


def remedy_of(error: BaseException, file: str, folder: Path) -> str:
    """Return the remedy for an exception. `file` is the author's file that raised it; "" if unknown."""
    for remedy in (
        shadowing_remedy,
        newer_python_remedy,
        import_remedy,
        variable_remedy,
        _syntax_remedy,
        _exit_remedy,
        _input_remedy,
        _event_loop_remedy,
        _file_remedy,
    ):
        if advice := remedy(error, file, folder):
            return advice
    return "Fix that line." if file else "Fix the agent's code."


def _syntax_remedy(error: BaseException, file: str, folder: Path) -> str:
    text = str(error)
    if (
        isinstance(error, UnicodeError)
        or "null bytes" in text
        or "codec can't decode" in text
        or "unknown encoding" in text
    ):
        return "Save the file as UTF-8 text."
    if isinstance(error, IndentationError):
        return "Fix the indentation of that line, or of the line above it."
    if isinstance(error, SyntaxError):
        return "Fix that line, or the line above it."
    return ""


def _exit_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, SystemExit):
        return 'Code that ends the process, or runs a program, belongs below `if __name__ == "__main__":`.'
    return ""


def _input_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return "Remove input(): a server has no terminal."
    return ""


def _event_loop_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, RuntimeError) and "running event loop" in str(error):
        return "Await it in a node, or in an async factory: `async def make(): …`, without asyncio.run."
    return ""


def _file_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, FileNotFoundError) and error.filename:
        return "Name files relative to the code, not to where the server was started: Path(__file__).parent / …."
    return ""
