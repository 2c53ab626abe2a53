"""The escape key answered at once. It sends the first byte of many other keys' sequences, so that what follows is
awaited."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable

from textual import constants
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message import Message

_DELAY_S = 0.025
"""A terminal sends a sequence at once and ssh passes it on in one packet, so that Textual's 0.1 s only delay the escape
itself. Where one is cut all the same, what is lost comes a retransmission later, after more than 0.1 s too."""


class _Parser(XTermParser):
    def tick(self) -> Iterable[Message]:
        """Wait for the rest of a sequence: Textual's driver would look no sooner than 0.1 s from now."""
        end, stdin = self._timeout_time, sys.__stdin__
        if end is not None and stdin is not None and select.select([stdin], [], [], max(0.0, end - get_time()))[0]:
            return ()
        return super().tick()


def shorten_wait() -> None:
    """For an application that has not started; ESCDELAY, in milliseconds, goes before what is chosen here."""
    if "ESCDELAY" not in os.environ:
        constants.ESCAPE_DELAY = _DELAY_S  # type: ignore[misc]
    linux_driver.XTermParser = _Parser  # type: ignore[attr-defined]
