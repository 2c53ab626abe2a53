"""One line of input at the bottom of the screen, for search and filter."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from gputui.views import actions


class Prompt(Horizontal):
    """Posts ``Changed`` with every letter; enter keeps what was typed, esc takes it back."""

    BINDINGS = actions.bindings("prompt")

    class Changed(Message):
        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind = kind
            self.text = text

    class Closed(Message):
        def __init__(self, kind: str, kept: bool) -> None:
            super().__init__()
            self.kind = kind
            self.kept = kept

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.kind = ""
        self._label = Static("", id="prompt-label", markup=False)
        self._input = Input(id="prompt-input", compact=True)
        self._input.cursor_blink = False
        self.display = False

    def compose(self) -> ComposeResult:
        yield self._label
        yield self._input

    def open(self, kind: str, label: str, placeholder: str, text: str = "") -> None:
        self.kind = kind
        self._label.update(label)
        self._input.placeholder = placeholder
        with self.prevent(Input.Changed):
            self._input.value = text
        self.display = True
        # At once: what is typed next may have come in the same packet, and would be read as keys of the list.
        self.screen.set_focus(self._input)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Changed(self.kind, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_keep()

    def action_keep(self) -> None:
        self._close(kept=True)

    def action_cancel(self) -> None:
        self._close(kept=False)

    def _close(self, *, kept: bool) -> None:
        self.display = False
        self.post_message(self.Closed(self.kind, kept))
