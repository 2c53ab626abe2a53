"""The command line. It holds no arithmetic; whatever is heavy is imported where it is used."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gputui import __version__
from gputui.errors import EXIT_INTERRUPTED, EXIT_NO, EXIT_USAGE, GputuiError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from rich.console import RenderableType

    from gputui.analysis.engine import Diagnosis
    from gputui.model.kernel import Kernel
    from gputui.model.report import Report
    from gputui.wording import ReaderLevel, Wording

app = typer.Typer(
    name="gputui",
    help="Why is this GPU program slow, and what to change next: Nsight reports explained in the terminal.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ExplainFormat(str, Enum):
    text = "text"
    json = "json"
    markdown = "markdown"


class CompareFormat(str, Enum):
    text = "text"
    json = "json"
    markdown = "markdown"


class ExportFormat(str, Enum):
    csv = "csv"
    json = "json"


class RunsFormat(str, Enum):
    text = "text"
    json = "json"


class DoctorFormat(str, Enum):
    text = "text"
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
PathsArgument = Annotated[
    list[Path], typer.Argument(help="Reports, or folders of reports.", metavar="PATH...", readable=False)
]
KernelOption = Annotated[str | None, typer.Option(help="Only kernels whose name this regular expression finds.")]
NvtxOption = Annotated[
    str | None,
    typer.Option(help="Only what was launched in NVTX ranges whose path outer/inner this regular expression finds."),
]
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
    paths: PathsArgument,
    lang: LanguageOption = None,
    level: LevelOption = None,
    ascii: AsciiOption = False,
    no_mouse: MouseOption = False,
) -> None:
    """Open reports in the terminal: kernels, why each is slow, timeline, roofline, all metrics."""
    _open(paths, lang, level, ascii=ascii, mouse=not no_mouse)


@app.command()
def demo(
    timeline: Annotated[bool, typer.Option("--timeline", help="Open the timeline of a training loop instead.")] = False,
    lang: LanguageOption = None,
    level: LevelOption = None,
    ascii: AsciiOption = False,
    no_mouse: MouseOption = False,
) -> None:
    """Open the report that ships with gputui: slow kernels and their cures. Needs no GPU and no Nsight."""
    from gputui.data import demo_report, demo_timeline

    _open([demo_timeline() if timeline else demo_report()], lang, level, ascii=ascii, mouse=not no_mouse)


@app.command()
def explain(
    paths: PathsArgument,
    kernel: KernelOption = None,
    nvtx: NvtxOption = None,
    format: Annotated[
        ExplainFormat, typer.Option(help="What to print; json: a line for each report.")
    ] = ExplainFormat.text,
    level: LevelOption = None,
    lang: LanguageOption = None,
    ascii: AsciiOption = False,
) -> None:
    """Say why a program or its kernels are slow and what to change next; several ranks of one job as one timeline."""
    _warm_up("gputui.render.text" if format is ExplainFormat.text else "")
    _explain_all(paths, _choice(kernel, nvtx), format, level, _words(lang), ascii=ascii)


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(help="The report before, or its folder.", metavar="BASE", readable=False)],
    new: Annotated[
        Path | None, typer.Argument(help="The report after, or its folder.", metavar="NEW", readable=False)
    ] = None,
    kernel: KernelOption = None,
    base_kernel: Annotated[str | None, typer.Option(help="Only these kernels of BASE.", metavar="RE")] = None,
    new_kernel: Annotated[str | None, typer.Option(help="Only these kernels of NEW.", metavar="RE")] = None,
    nvtx: NvtxOption = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="These kernels of BASE became those of NEW; may be repeated.", metavar="BASE_RE=NEW_RE"),
    ] = None,
    same_work: Annotated[
        bool, typer.Option("--same-work", help="Both do the same work, where the reports do not tell.")
    ] = False,
    fail_if: Annotated[
        str | None, typer.Option(help='Status 1 where this holds, such as "time > 1.05".', metavar="CONDITION")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the terminal UI.")] = False,
    format: Annotated[CompareFormat, typer.Option(help="What to print.")] = CompareFormat.text,
    level: LevelOption = None,
    lang: LanguageOption = None,
    ascii: AsciiOption = False,
    no_mouse: MouseOption = False,
) -> None:
    """Say what a change did: tensor cores, DRAM traffic, fusion, time and how sure that is, and what to change next.

    BASE and NEW are reports of one kind (Nsight Compute, or timelines), or folders whose reports belong together, such
    as those of gputui run. A folder of runs alone is told as a history, then its first run against its last. With
    --base-kernel and --new-kernel, BASE alone is enough.
    """
    _warm_up("gputui.render.compare_text" if format is CompareFormat.text else "")
    from gputui import cli_compare
    from gputui.analysis.compare.condition import Condition
    from gputui.analysis.compare.reports import Chosen
    from gputui.terminal import can_draw, wants_ascii

    both = _pattern("--kernel", kernel)
    chosen = Chosen(
        _pattern("--base-kernel", base_kernel) or both,
        _pattern("--new-kernel", new_kernel) or both,
        _pattern("--nvtx", nvtx),
        tuple(cli_compare.pair(one, _pattern) for one in pair or ()),
    )
    condition = None if fail_if is None else Condition.parse(fail_if)
    words = _words(lang)
    reader: ReaderLevel | None = level.value if level else None
    asked = cli_compare.asked(base, new, chosen)
    if open_ and (chosen != Chosen() or condition or same_work or format is not CompareFormat.text):
        raise GputuiError("--open", "shows whole reports", "Leave what chooses in them, --format and --fail-if out")
    if open_ and asked.base and asked.new and can_draw():
        from gputui.cli_run import means
        from gputui.run.folder import RUNS
        from gputui.views.app import run

        raise typer.Exit(
            run(
                [],
                language=words.language,
                level=reader,
                ascii=ascii or wants_ascii(),
                mouse=not no_mouse,
                compared=([asked.base], [asked.new]),
                **means(Path(RUNS)),
            )
        )
    with _cleaning_up(), cli_compare.found(asked, chosen, words, _say, same_work=same_work) as found:
        if format is CompareFormat.json:
            text = cli_compare.as_json(found, words)
        elif format is CompareFormat.markdown:
            text = cli_compare.as_markdown(found, words, reader)
        else:
            text = _plain(lambda ascii: cli_compare.as_text(found, words, reader, ascii=ascii), ascii=ascii)
        _print(f"{text}\n")
        failing = None if condition is None else cli_compare.failing(condition, found.comparisons)
    if failing is not None:
        _say(failing)
        raise typer.Exit(EXIT_NO)


@app.command()
def export(
    path: Annotated[Path, typer.Argument(help="A report.", metavar="PATH", readable=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file to write; - is standard output.", readable=False)
    ],
    format: Annotated[
        ExportFormat, typer.Option(help="csv: a row a launch, a column a metric; json: the same by name.")
    ],
    kernel: KernelOption = None,
    nvtx: NvtxOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write every metric of every kernel, in base units, for a notebook or a spreadsheet.

    Of a timeline: a row for each kernel launch, copy and memset, with its start and duration in ns, GPU, stream, grid,
    block, bytes, the API call that launched it and its NVTX path outer/inner.
    """
    from gputui.formats import open_report
    from gputui.render.table import write
    from gputui.terminal import safe

    choice = _choice(kernel, nvtx)
    to_stdout = str(output) == "-"
    try:
        taken = output.exists() and not (force or to_stdout)
    except OSError as error:
        raise GputuiError(str(output), f"cannot be written ({error.strerror})", "Choose another name") from error
    if taken:
        raise GputuiError(str(output), "is there already", "Choose another name, or add --force")
    with _cleaning_up():
        report = open_report(path)
    try:
        if report.timeline is None:
            count, parts = _exported_kernels(report, choice, format)
            told = f"{output}: {count} kernels"
        else:
            count, parts = _exported_operations(report, choice, format)
            told = f"{output}: {count} GPU operations"
    finally:
        report.close()
    if to_stdout:
        for part in parts:
            _print(part)
        return
    write(output, parts)
    typer.echo(safe(told), err=True)


@app.command("runs")
def runs_(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A folder of runs, or one run; default: gputui-runs.", metavar="FOLDER", readable=False),
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="Add a note to the run FOLDER.")] = None,
    format: Annotated[RunsFormat, typer.Option(help="What to print.")] = RunsFormat.text,
    lang: LanguageOption = None,
    ascii: AsciiOption = False,
) -> None:
    """List the runs in a folder: how each ended, its reports and notes. What an interrupted one left is kept."""
    from gputui.run.folder import RUNS, add_note, listed
    from gputui.terminal import safe

    words = _words(lang)
    if note is not None:
        if folder is None:
            raise GputuiError("--note", "needs the run that it is about", "Name its folder; gputui runs lists them")
        _print(f"{safe(words.text('runs.noted', path=add_note(folder, note)))}\n")
        return
    place = folder or Path(RUNS)
    found = listed(place)
    if format is RunsFormat.json:
        import json

        from gputui.render.runs import runs_json

        _print(f"{json.dumps(runs_json(found))}\n")
        return
    from gputui.render.runs import runs_text

    _print(f"{_plain(lambda ascii: runs_text(place, found, words), ascii=ascii)}\n")


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str] | None, typer.Argument(help="The program and its arguments, after --.", metavar="-- COMMAND...")
    ] = None,
    ncu_top: Annotated[
        int | None, typer.Option(min=0, help="Count the N longest kernels without asking; 0: the timeline alone.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(help="Count these kernels: a name, or the operator or range that launched them.", metavar="RE"),
    ] = None,
    nvtx: Annotated[
        str | None, typer.Option(help="Count what was launched in NVTX ranges whose path this finds.", metavar="RE")
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(help="Choose kernels from this timeline (nsys, PyTorch), record none.", readable=False),
    ] = None,
    pytorch_ranges: Annotated[
        bool,
        typer.Option("--pytorch-ranges", help="Mark PyTorch's operators as NVTX ranges."),
    ] = False,
    capture_api: Annotated[
        bool, typer.Option("--capture-api", help="Record only between cudaProfilerStart and cudaProfilerStop.")
    ] = False,
    delay: Annotated[float | None, typer.Option(min=0, help="Seconds before the timeline begins.")] = None,
    duration: Annotated[float | None, typer.Option(min=0, help="Seconds after which the timeline ends.")] = None,
    launches: Annotated[int, typer.Option(min=1, help="Launches of each kernel to count.")] = 3,
    communication: Annotated[
        bool, typer.Option("--communication", help="Count NCCL kernels too; they mostly hang when they are replayed.")
    ] = False,
    nsys_options: Annotated[
        str, typer.Option(help="Further options for nsys profile, as one word.", metavar="OPTIONS")
    ] = "",
    ncu_options: Annotated[
        str, typer.Option(help="Further options for ncu, such as '--clock-control none'.", metavar="OPTIONS")
    ] = "",
    host: Annotated[str | None, typer.Option(help="Run it there, over ssh.", metavar="USER@HOST")] = None,
    directory: Annotated[
        str | None, typer.Option("--directory", help="Where the program runs; default: here, or the home there.")
    ] = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Go on with the newest run whose connection was lost.")
    ] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where run folders are made.", readable=False)] = Path(
        "gputui-runs"
    ),
    no_tui: Annotated[bool, typer.Option("--no-tui", help="Ask nothing and print: for scripts.")] = False,
    level: LevelOption = None,
    lang: LanguageOption = None,
    ascii: AsciiOption = False,
    no_mouse: MouseOption = False,
) -> None:
    """Profile a program: its timeline, then the kernels that matter, then why they are slow.

    nsys records the timeline; ncu counts in the kernels that you choose there, or in the longest ones. Everything is
    kept in a folder of its own below gputui-runs. The program is started once for the timeline and once or more for
    the counters.
    """
    from gputui.cli_run import Printer, attached, kept_timeline, means, recovered, unattended
    from gputui.run.plan import Request
    from gputui.run.session import Session, machine_of
    from gputui.terminal import can_draw, wants_ascii

    for option, expression in (("--kernel", kernel), ("--nvtx", nvtx)):
        _pattern(option, expression)
    if attach and command:
        raise GputuiError("gputui run --attach", "goes on with a program and takes none", "Leave the program out")
    if not (attach or command):
        raise GputuiError("gputui run", "has no program to run", "Name it behind --: gputui run -- python train.py")
    words = _words(lang)
    for option, seconds in (("--delay", delay), ("--duration", duration)):
        if seconds is not None and not seconds < _MOST_SECONDS:
            raise GputuiError(f"{option} {seconds}", "is no number of seconds", "Give one, such as 10")
    request = Request(
        command=tuple(command or ()),
        cwd=_here() if host or not directory else os.path.abspath(directory),
        directory=directory or "",
        top=ncu_top,
        nvtx=nvtx,
        kernel=kernel,
        pytorch_ranges=pytorch_ranges,
        capture_api=capture_api,
        delay=delay,
        duration=duration,
        communication=communication,
        launches=launches,
        nsys_options=_options("--nsys-options", nsys_options),
        ncu_options=_options("--ncu-options", ncu_options),
    )
    session = attached(output) if attach else Session(machine_of(host or "", request.directory), request, output)
    timeline = timeline or kept_timeline(session)
    reader: ReaderLevel | None = level.value if level else None
    if can_draw() and not no_tui:
        from gputui.views.app import run_guided

        found = means(output, session.request, session.machine.name)
        raise typer.Exit(
            run_guided(
                session,
                timeline=timeline,
                earlier=[] if attach else recovered(output),
                language=words.language,
                level=reader,
                ascii=ascii or wants_ascii(),
                mouse=not no_mouse,
                **found,
            )
        )

    unwritten: list[GputuiError] = []

    def write(text: str) -> None:
        # What runs goes on, whether anyone reads of it or not.
        try:
            _print(text)
        except typer.Exit:
            pass
        except GputuiError as error:
            unwritten.append(error)

    def show(lines: Iterable[RenderableType]) -> None:
        found = list(lines)
        if found:
            write(f"{_plain(lambda ascii: found, ascii=ascii)}\n")

    printer = Printer(write, show, words, reader, session.machine.name, ascii=ascii)
    with _cleaning_up():
        status = unattended(session, printer, show, words, timeline)
    if unwritten:
        raise unwritten[0]
    raise typer.Exit(status)


@app.command()
def doctor(
    format: Annotated[DoctorFormat, typer.Option(help="What to print.")] = DoctorFormat.text,
    host: Annotated[str, typer.Option(help="Look at this machine, over ssh.", metavar="USER@HOST")] = "",
    lang: LanguageOption = None,
    ascii: AsciiOption = False,
) -> None:
    """Say whether this machine can profile, and how to fix what stops it.

    Status 1 where the timeline or the counters cannot work.
    """
    from gputui.render.doctor import doctor_json, doctor_text
    from gputui.run.doctor import can_profile, checks
    from gputui.run.session import machine_of

    machine = machine_of(host, "")
    try:
        found = machine.facts()
    finally:
        machine.close()
    told = checks(found)
    if format is DoctorFormat.json:
        import json

        text = json.dumps(doctor_json(told, found), allow_nan=False)
    else:
        words = _words(lang)
        text = _plain(lambda ascii: doctor_text(told, words, ascii=ascii), ascii=ascii)
    _print(f"{text}\n")
    if not can_profile(told):
        raise typer.Exit(EXIT_NO)


def _exported_kernels(report: Report, choice: _Choice, format: ExportFormat) -> tuple[int, Iterable[str]]:
    from gputui.render.table import csv_text, json_text

    report.kernels = [one for one in report.kernels if choice.holds(one)]
    if not report.kernels:
        raise choice.no_match(report)
    return len(report.kernels), ((csv_text if format is ExportFormat.csv else json_text)(report),)


def _exported_operations(report: Report, choice: _Choice, format: ExportFormat) -> tuple[int, Iterable[str]]:
    from gputui.analysis.timeline import TimelineFacts
    from gputui.analysis.timeline_tables import select_ops
    from gputui.render.timeline_table import csv_parts, json_parts

    assert report.timeline is not None
    facts = TimelineFacts(report.timeline)
    chosen = select_ops(facts, choice.kernel, choice.nvtx)
    if not chosen.any():
        raise choice.no_match(report)
    return int(chosen.sum()), (csv_parts if format is ExportFormat.csv else json_parts)(facts, chosen)


def _warm_up(printer: str) -> None:
    """Load what explains, and what prints text, while a process of its own reads the file."""
    from importlib import import_module

    # First, for it starts that process.
    import gputui.formats.together  # noqa: F401

    def load() -> None:
        from gputui.analysis.engine import needed_names

        needed_names()
        if printer:
            import rich.console  # noqa: F401

            import_module(printer)

    # Python's 5 ms a turn would keep the file's reader from being started, and its answers waiting.
    sys.setswitchinterval(0.0005)
    Thread(target=load, daemon=True).start()


def _words(language: Language | None) -> Wording:
    from gputui.wording import language_of_locale, wording

    return wording(language.value if language else language_of_locale())


class _Choice(NamedTuple):
    """What ``--kernel`` and ``--nvtx`` ask for; ``None`` where they ask for nothing."""

    kernel: re.Pattern[str] | None
    nvtx: re.Pattern[str] | None

    def holds(self, kernel: Kernel) -> bool:
        named = self.kernel is None or self.kernel.search(kernel.demangled) or self.kernel.search(kernel.name)
        return bool(named and (self.nvtx is None or self.nvtx.search("/".join(kernel.nvtx))))

    def no_match(self, report: Report) -> GputuiError:
        if self.kernel is None and self.nvtx is None:
            return GputuiError(report.path, "holds no kernels", "Collect it again while the GPU works")
        options = {"--kernel": self.kernel, "--nvtx": self.nvtx}
        given = " ".join(f"{name} {one.pattern}" for name, one in options.items() if one is not None)
        what = f"none of the {len(report.kernels)} kernels" if report.timeline is None else "nothing in this timeline"
        return GputuiError(given, f"matches {what}", f"Without {given.split()[0]} gputui explain lists what there is")


def _choice(kernel: str | None, nvtx: str | None) -> _Choice:
    return _Choice(_pattern("--kernel", kernel), _pattern("--nvtx", nvtx))


def _pattern(option: str, expression: str | None) -> re.Pattern[str] | None:
    import re

    if expression is None:
        return None
    try:
        return re.compile(expression)
    except re.error as error:
        hint = "Write special characters such as ( or [ with a backslash"
        raise GputuiError(f"{option} {expression}", f"is no regular expression ({error})", hint) from error


_MOST_SECONDS = 1e7


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise GputuiError("this folder", f"is not there any more ({error.strerror})", "Go to another one") from error


def _options(option: str, text: str) -> tuple[str, ...]:
    """What a shell would make of the words."""
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise GputuiError(f"{option} {text}", "has a quotation mark that is not closed", "Close it") from error


def _open(paths: list[Path], lang: Language | None, level: Level | None, *, ascii: bool, mouse: bool) -> None:
    from gputui.terminal import can_draw, wants_ascii

    words = _words(lang)
    ascii = ascii or wants_ascii()
    if can_draw():
        from gputui.cli_run import means, opened_run
        from gputui.run.folder import RUNS
        from gputui.views.app import run

        record = opened_run(paths)
        status = run(
            paths,
            language=words.language,
            level=level.value if level else None,
            ascii=ascii,
            mouse=mouse,
            opened=record,
            **means(Path(RUNS), None if record is None else record.request, "" if record is None else record.host),
        )
        raise typer.Exit(status)
    _explain_all(paths, _choice(None, None), ExplainFormat.text, level, words, ascii=ascii)


@contextmanager
def _cleaning_up() -> Iterator[None]:
    """Within, a signal that ends the program lets go of what was begun: drafts of files, and programs that run."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # One that is ignored (nohup) stays so.
    caught = [one for one in ends if signal.getsignal(one) is signal.SIG_DFL]
    for one in caught:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in caught:
            signal.signal(one, signal.SIG_DFL)


@_cleaning_up()
def _explain_all(
    paths: list[Path], choice: _Choice, format: ExplainFormat, level: Level | None, words: Wording, *, ascii: bool
) -> None:
    """Each report in turn. One bad file of many is a warning."""
    from gputui.formats.together import open_all

    failed: list[GputuiError] = []
    explained = False
    for report in open_all(paths):
        if isinstance(report, GputuiError):
            failed.append(report)
            continue
        try:
            text = _explained(report, choice, format, level, words, ascii=ascii)
        except GputuiError as error:
            failed.append(error)
            continue
        finally:
            report.close()
        _print(f"{text}\n")
        explained = True
    if not explained:
        raise failed[0]
    for warning in failed:
        _say(warning)


def _explained(
    report: Report, choice: _Choice, format: ExplainFormat, level: Level | None, words: Wording, *, ascii: bool
) -> str:
    if report.timeline is not None:
        return _explained_timeline(report, choice, format, level, words, ascii=ascii)
    from gputui.analysis.engine import diagnose_all

    diagnoses: list[Diagnosis] = [one for one in diagnose_all(report) if choice.holds(one.kernel)]
    if report.kernels and not diagnoses:
        raise choice.no_match(report)
    reader: ReaderLevel | None = level.value if level else None
    if format is ExplainFormat.json:
        import json

        from gputui.render.schema import report_json

        return json.dumps(report_json(report, diagnoses, words), allow_nan=False)
    if format is ExplainFormat.markdown:
        from gputui.render.markdown import report_markdown

        return report_markdown(report, diagnoses, words, reader).rstrip("\n")
    from gputui.render.text import report_text

    return _plain(lambda ascii: report_text(report, diagnoses, words, reader, ascii=ascii), ascii=ascii)


def _explained_timeline(
    report: Report, choice: _Choice, format: ExplainFormat, level: Level | None, words: Wording, *, ascii: bool
) -> str:
    from gputui.analysis.timeline import TimelineFacts
    from gputui.analysis.timeline_diagnosis import diagnose_timeline
    from gputui.analysis.timeline_tables import select

    assert report.timeline is not None
    diagnosis = diagnose_timeline(TimelineFacts(report.timeline), report.notices)
    selection = select(diagnosis, choice.kernel, choice.nvtx)
    if not (selection.is_whole or selection.kernels or (selection.nodes and choice.kernel is None)):
        raise choice.no_match(report)
    reader: ReaderLevel | None = level.value if level else None
    if format is ExplainFormat.json:
        import json

        from gputui.render.timeline_json import timeline_json

        return json.dumps(timeline_json(report, diagnosis, selection, words), allow_nan=False)
    if format is ExplainFormat.markdown:
        from gputui.render.timeline_markdown import timeline_markdown

        return timeline_markdown(report, diagnosis, selection, words, reader).rstrip("\n")
    from gputui.render.timeline_text import timeline_text

    return _plain(lambda ascii: timeline_text(report, diagnosis, selection, words, reader, ascii=ascii), ascii=ascii)


def _plain(parts: Callable[[bool], Iterable[RenderableType]], *, ascii: bool) -> str:
    """What Rich makes of the parts, as wide as the terminal, coloured only on one; no line ends in blanks."""
    from io import StringIO
    from shutil import get_terminal_size

    from rich.console import Console

    from gputui.paint.grid import to_ascii
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
    for part in parts(ascii):
        console.print(part, crop=False)
    text = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
    return to_ascii(text) if ascii else text


def _print(text: str) -> None:
    """``text`` to standard output. A reader that has seen enough (``head``) is no error."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
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
    own = len(arguments) if "--" not in arguments else arguments.index("--")
    if "--debug" in arguments[:own] and (own < len(arguments) or "run" not in arguments[:2]):
        # It may stand anywhere, but not among the arguments of a program to run.
        arguments = ["--debug", *(one for one in arguments[:own] if one != "--debug"), *arguments[own:]]
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
    except Exception as error:
        if os.environ.get("GPUTUI_DEBUG"):
            raise
        # Python's own status of 1 is the answer "no" here.
        why = f"{type(error).__name__}: {error}"
        _say(GputuiError("gputui", why, "This is a bug: please report it with what --debug prints"))
        sys.exit(EXIT_USAGE)
