"""Where a command is changed before it runs, or a program's is typed."""

from __future__ import annotations

from dataclasses import replace

from textual import events
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult

from gputui.views import actions
from gputui.views.guide_text import printable


class CommandEditor(TextArea):
    """Enter keeps what was typed, esc cancels. A long command takes several lines."""

    BINDINGS = actions.bindings("prompt")

    class Closed(Message):
        def __init__(self, text: str, kept: bool) -> None:
            super().__init__()
            self.text = text
            self.kept = kept

    def __init__(self) -> None:
        super().__init__(id="editor", compact=True, highlight_cursor_line=False)
        self.cursor_blink = False
        self.display = False

    def open(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.display = True
        # At once, not by ``focus``: what is typed next is for here.
        self.screen.set_focus(self)

    def edit(self, edit: Edit) -> EditResult:
        # What is pasted may hold anything.
        return super().edit(replace(edit, text=printable(edit.text)))

    async def _on_key(self, event: events.Key) -> None:
        # Every key is acted on here and now. What is bound would else be acted on by the application, to which the key
        # comes back only after the letters typed behind it.
        action = "keep" if event.key == "enter" else ""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            action = action or binding.action
        if action:
            event.stop()
            event.prevent_default()
            await self.app.run_action(action, self)
            return
        await super()._on_key(event)

    def action_keep(self) -> None:
        self.post_message(self.Closed(self.text, True))

    def action_cancel(self) -> None:
        self.post_message(self.Closed(self.text, False))
