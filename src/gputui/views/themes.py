"""Our two themes: quiet greys, one accent, and severities that colour-blind people can tell apart."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="gputui-dark",
    dark=True,
    primary="#7fb4ff",
    secondary="#8fa3bf",
    accent="#7fb4ff",
    foreground="#d8dee9",
    background="#12161c",
    surface="#181d25",
    panel="#262a30",
    warning="#e5c15b",
    error="#ff8f5e",
    success="#5cc8ae",
    variables={
        "muted": "#95a1b3",
        "faint": "#69758a",
        "strong": "#f2f5fa",
        "bar": "#6f8fb8",
        "bar-lead": "#7fb4ff",
        "cursor-back": "#29405f",
        "cursor-back-blurred": "#2b3038",
        "code": "#a9c7e8",
        "match-back": "#5a4a16",
        "rule-line": "#363b43",
        "input-cursor-background": "#d8dee9",
        "input-cursor-foreground": "#12161c",
        "footer-background": "#181d25",
    },
)
LIGHT = Theme(
    name="gputui-light",
    dark=False,
    primary="#1b5fb4",
    secondary="#5b6b80",
    accent="#1b5fb4",
    foreground="#1f2731",
    background="#fbfbf9",
    surface="#f1f2f0",
    panel="#e3e6e8",
    warning="#8a6400",
    error="#b4430c",
    success="#0c7560",
    variables={
        "muted": "#57626f",
        "faint": "#737e8b",
        "strong": "#0b1016",
        "bar": "#8aa5c6",
        "bar-lead": "#1b5fb4",
        "cursor-back": "#bcd0ea",
        "cursor-back-blurred": "#d5dae1",
        "code": "#2c557f",
        "match-back": "#ffe9a3",
        "rule-line": "#c4c9cf",
        "input-cursor-background": "#1f2731",
        "input-cursor-foreground": "#fbfbf9",
        "footer-background": "#f1f2f0",
    },
)
THEMES = (DARK, LIGHT)
