"""The command line. It holds no arithmetic; whatever is heavy is imported where it is used."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gputui import __version__
from gputui.errors import EXIT_INTERRUPTED, EXIT_USAGE, GputuiError

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.model.report import Report
    from gputui.wording import ReaderLevel, Wording

app = typer.Typer(
    name="gputui",
    help="Why is this GPU kernel slow, and what to change next: Nsight Compute reports explained in the terminal.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ExplainFormat(str, Enum):
    text = "text"
    json = "json"
    markdown = "markdown"


class ExportFormat(str, Enum):
    csv = "csv"
    json = "json"


class Level(str, Enum):
    pytorch = "pytorch"
    triton = "triton"
    cuda = "cuda"


class Language(str, Enum):
    en = "en"
    ja = "ja"


LevelOption = Annotated[Level | None, typer.Option(help="Whom the advice is for; default: what fits the kernel.")]
LanguageOption = Annotated[Language | None, typer.Option("--lang", help="Language; default: that of the locale.")]
KernelOption = Annotated[str | None, typer.Option(help="Only kernels whose name this regular expression finds.")]
AsciiOption = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters alone.")]
MouseOption = Annotated[bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")]


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"gputui {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if debug:
        os.environ["GPUTUI_DEBUG"] = "1"


@app.command("open")
def open_(
    paths: Annotated[list[Path], typer.Argument(help="Reports, or folders of reports.", metavar="PATH...")],
    lang: LanguageOption = None,
    level: LevelOption = None,
    ascii: AsciiOption = False,
    no_mouse: MouseOption = False,
) -> None:
    """Open reports in the terminal: kernels, why each is slow, roofline, all metrics."""
    _open(paths, lang, level, ascii=ascii, mouse=not no_mouse)


@app.command()
def demo(
    lang: LanguageOption = None,
    level: LevelOption = None,
    ascii: AsciiOption = False,
    no_mouse: MouseOption = False,
) -> None:
    """Open the report that ships with gputui: slow kernels and their cures. Needs no GPU and no Nsight."""
    from gputui.data import demo_report

    _open([demo_report()], lang, level, ascii=ascii, mouse=not no_mouse)


@app.command()
def explain(
    path: Annotated[Path, typer.Argument(help="A report.", metavar="PATH")],
    kernel: KernelOption = None,
    format: Annotated[ExplainFormat, typer.Option(help="What to print.")] = ExplainFormat.text,
    level: LevelOption = None,
    lang: LanguageOption = None,
    ascii: AsciiOption = False,
) -> None:
    """Say why the kernels of a report are slow and what to change next."""
    from gputui.formats import open_report

    # What is needed next loads while the reader's process works on the file.
    Thread(target=_warm_up, args=(format,), daemon=True).start()
    report = open_report(path)
    try:
        _explain(report, _pattern(kernel), format, level, _words(lang), ascii=ascii)
    finally:
        report.close()


@app.command()
def export(
    path: Annotated[Path, typer.Argument(help="A report.", metavar="PATH")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; - is standard output.")],
    format: Annotated[ExportFormat, typer.Option(help="csv: a row a launch, a column a metric; json: with units.")],
    kernel: KernelOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write every metric of every kernel, in base units, for a notebook or a spreadsheet."""
    from gputui.formats import open_report
    from gputui.render.table import csv_text, json_text, write
    from gputui.terminal import safe

    pattern = _pattern(kernel)
    to_stdout = str(output) == "-"
    try:
        taken = output.exists() and not (force or to_stdout)
    except OSError as error:
        raise GputuiError(str(output), f"cannot be written ({error.strerror})", "Choose another name") from error
    if taken:
        raise GputuiError(str(output), "is there already", "Choose another name, or add --force")
    report = open_report(path)
    try:
        chosen = [one for one in report.kernels if pattern.search(one.demangled) or pattern.search(one.name)]
        if not chosen:
            raise _no_match(pattern, len(report.kernels))
        report.kernels = chosen
        text = (csv_text if format is ExportFormat.csv else json_text)(report)
    finally:
        report.close()
    if to_stdout:
        _print(text.rstrip("\n"))
        return
    write(output, text)
    typer.echo(safe(f"{output}: {len(report.kernels)} kernels"), err=True)


def _warm_up(format: ExplainFormat) -> None:
    from gputui.analysis.engine import needed_names

    needed_names()
    if format is ExplainFormat.text:
        import rich.console  # noqa: F401

        import gputui.render.text  # noqa: F401


def _words(language: Language | None) -> Wording:
    from gputui.wording import language_of_locale, wording

    return wording(language.value if language else language_of_locale())


def _pattern(expression: str | None) -> Any:
    import re

    try:
        return re.compile(expression or "")
    except re.error as error:
        hint = "Write special characters such as ( or [ with a backslash"
        raise GputuiError(f"--kernel {expression}", f"is no regular expression ({error})", hint) from error


def _no_match(pattern: Any, count: int) -> GputuiError:
    hint = "Without --kernel gputui explain lists them"
    return GputuiError(f"--kernel {pattern.pattern}", f"matches none of the {count} kernels", hint)


def _open(paths: list[Path], lang: Language | None, level: Level | None, *, ascii: bool, mouse: bool) -> None:
    from gputui.terminal import can_draw, wants_ascii

    words = _words(lang)
    ascii = ascii or wants_ascii()
    if can_draw():
        from gputui.views.app import run

        status = run(paths, language=words.language, level=level.value if level else None, ascii=ascii, mouse=mouse)
        raise typer.Exit(status)
    from gputui.formats import open_report, reports_in

    files = [file for path in paths for file in reports_in(path)]
    unreadable: list[GputuiError] = []
    for file in files:
        try:
            report = open_report(file)
        except GputuiError as error:
            unreadable.append(error)
            continue
        try:
            _explain(report, _pattern(None), ExplainFormat.text, level, words, ascii=ascii)
        finally:
            report.close()
    # One bad file of many is a warning.
    if len(unreadable) == len(files):
        raise unreadable[0]
    for warning in unreadable:
        _say(warning)


def _explain(
    report: Report, pattern: Any, format: ExplainFormat, level: Level | None, words: Wording, *, ascii: bool
) -> None:
    from gputui.analysis.engine import diagnose_all

    diagnoses: list[Diagnosis] = [
        one for one in diagnose_all(report) if pattern.search(one.kernel.demangled) or pattern.search(one.kernel.name)
    ]
    if report.kernels and not diagnoses:
        raise _no_match(pattern, len(report.kernels))
    reader: ReaderLevel | None = level.value if level else None
    if format is ExplainFormat.json:
        import json

        from gputui.render.schema import report_json

        _print(json.dumps(report_json(report, diagnoses, words), allow_nan=False))
    elif format is ExplainFormat.markdown:
        from gputui.render.markdown import report_markdown

        _print(report_markdown(report, diagnoses, words, reader).rstrip("\n"))
    else:
        from io import StringIO
        from shutil import get_terminal_size

        from rich.console import Console

        from gputui.paint.grid import to_ascii
        from gputui.render.text import report_text
        from gputui.terminal import wants_ascii

        ascii = ascii or wants_ascii()
        printed = StringIO()
        console = Console(
            file=printed,
            width=min(get_terminal_size().columns, 110),
            force_terminal=sys.stdout is not None and sys.stdout.isatty(),
            highlight=False,
            markup=False,
            emoji=False,
        )
        for part in report_text(report, diagnoses, words, reader, ascii=ascii):
            console.print(part)
        text = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        _print(to_ascii(text) if ascii else text)


def _print(text: str) -> None:
    """``text`` and a line break to standard output. A reader that has seen enough (``head``) is no error."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing more can be flushed to it, not even at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise GputuiError(
            "standard output", f"cannot be written ({error.strerror})", "Check that its disk is not full"
        ) from error


def _say(error: GputuiError) -> None:
    from gputui.terminal import safe

    # Nobody may be listening.
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"gputui: {safe(str(error))}\n")
        sys.stderr.flush()


def main() -> None:
    """Run the command line; the one place where errors become a line and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What an old encoding lacks becomes a question mark.
            stream.reconfigure(errors="replace")
    arguments = sys.argv[1:]
    if "--debug" in arguments:
        # It may stand anywhere.
        arguments = ["--debug", *(one for one in arguments if one != "--debug")]
    try:
        app(arguments)
    except GputuiError as error:
        if os.environ.get("GPUTUI_DEBUG"):
            import traceback

            traceback.print_exc()
        else:
            _say(error)
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
