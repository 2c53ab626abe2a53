"""The one error type a user meets, and the exit statuses of the command line."""

from __future__ import annotations

EXIT_NO = 1
"""The answer is no: a profiler failed, a check found a blocker, a comparison is as ``--fail-if`` says."""
EXIT_USAGE = 2
"""Wrong usage, or a file that cannot be read."""
EXIT_INTERRUPTED = 130


class GputuiError(Exception):
    """Something a person can act on: what it is about, what happened, what to do next.

    ``title`` names the subject (mostly a file), ``message`` the cause, ``hint`` the next step; each is one line
    of plain text without a final full stop where it is joined to the next.
    """

    def __init__(self, title: str, message: str, hint: str = "") -> None:
        super().__init__(title, message, hint)
        self.title = title
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        line = f"{self.title}: {self.message}."
        if not self.hint:
            return line
        return f"{line} {self.hint}" if self.hint.endswith(("?", "!")) else f"{line} {self.hint}."
