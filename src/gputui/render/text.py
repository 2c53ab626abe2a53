"""The explanation as plain text for a terminal or a pipe: what ``gputui explain`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gputui import units
from gputui.analysis.gpu import features_of
from gputui.paint.bars import bar
from gputui.paint.grid import shorten
from gputui.render.collect import not_told
from gputui.render.lines import (
    Told,
    claims,
    code_of,
    line_name,
    mark_of,
    place_share,
    placed,
    remarks_of,
    source_of,
    stall_name,
)
from gputui.terminal import safe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.kernel_names import KernelIdentity
    from gputui.analysis.nvidia_rules import Remark
    from gputui.analysis.source import Source
    from gputui.analysis.transformer import TransformerOp
    from gputui.model.kernel import Dim3, Kernel
    from gputui.model.report import Report
    from gputui.wording import FindingText, ReaderLevel, Wording

SHOWN_KERNELS = 10
SHOWN_LINES = 3
_CODE_COLUMN = 3
_NAME_CELLS = 34


def report_text(
    report: Report,
    diagnoses: Sequence[Diagnosis],
    words: Wording,
    level: ReaderLevel | None = None,
    *,
    ascii: bool = False,
) -> Iterable[RenderableType]:
    """What to print for a report: its kernels, then the slowest launch of each explained.

    ``level`` is the reader's; ``None`` takes it from each kernel's library.
    """
    groups = group_by_function(diagnoses)
    total = sum(diagnosis.kernel.duration_ns or 0 for diagnosis in diagnoses) or None
    yield Text(
        words.text(
            "explain.report",
            path=safe(report.path),
            device=safe(", ".join(device.name for device in report.devices)),
            kernels=len(diagnoses),
            time=total,
        ),
        style="bold",
    )
    for notice in report.notices:
        yield Text(f"! {safe(words.notice(notice))}", style="yellow")
    if len(groups) > 1:
        yield Text()
        yield Text(words.text("explain.kernels"), style="bold")
        yield _kernel_table(groups, total, words, ascii)
    told = Told(diagnoses)
    for launches in groups[:SHOWN_KERNELS]:
        yield Text()
        source, remarks = source_of(report, launches[0]), remarks_of(report, launches[0])
        yield from kernel_text(
            launches[0], words, level, launches=launches, source=source, remarks=remarks, told=told, ascii=ascii
        )
    if len(groups) > SHOWN_KERNELS:
        yield Text()
        yield Text(words.text("explain.more", count=len(groups) - SHOWN_KERNELS))
    yield from _not_told(groups, words)


def group_by_function(diagnoses: Iterable[Diagnosis]) -> list[list[Diagnosis]]:
    """Launches of one function together, the slowest first; groups by their total time, longest first."""
    groups: dict[str, list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault(diagnosis.kernel.demangled, []).append(diagnosis)
    for launches in groups.values():
        launches.sort(key=lambda diagnosis: -(diagnosis.kernel.duration_ns or 0))
    return sorted(
        groups.values(), key=lambda launches: -sum(diagnosis.kernel.duration_ns or 0 for diagnosis in launches)
    )


def level_of(diagnosis: Diagnosis) -> ReaderLevel:
    """The reader's level that fits the kernel's library; CUDA for a library that no Python program called."""
    library = diagnosis.identity.library
    of_cuda = library in ("user", "cutlass", "cub-thrust") or not diagnosis.python
    return "triton" if library == "triton" else "cuda" if of_cuda else "pytorch"


def what_it_is(identity: KernelIdentity, words: Wording, op: TransformerOp | None = None) -> tuple[str, ...]:
    """The step of a transformer, operation class and library, as far as they are known: gemm and cublas, or own kernel
    alone."""
    library = words.text("explain.own-kernel") if identity.library == "user" else identity.library
    step = (words.ui(f"transformer.{op}"),) if op is not None else ()
    kind = () if identity.op_class == "other" else (words.ui(f"op.{identity.op_class}"),)
    return tuple(dict.fromkeys((*step, *kind, library)))


def launch_shape(kernel: Kernel, words: Wording) -> str:
    """ "128 × 256 blocks of 32 threads": without the last sides that are 1."""
    key = "shape_one" if kernel.blocks == 1 else "shape"
    if kernel.block == (1, 1, 1):
        key += "_thread"
    return words.ui(key, grid=sides(kernel.grid), block=sides(kernel.block))


def expectation(diagnosis: Diagnosis, words: Wording) -> str | None:
    """The sentence on a kernel that is not on the side of the roofline where its kind belongs."""
    if diagnosis.expected is None:
        return None
    what = words.ui(f"op.{diagnosis.identity.op_class}")
    return words.expected(diagnosis.expected, what[:1].upper() + what[1:])


def kernel_text(
    diagnosis: Diagnosis,
    words: Wording,
    level: ReaderLevel | None = None,
    *,
    launches: Sequence[Diagnosis] = (),
    source: Source | None = None,
    remarks: Sequence[Remark] = (),
    told: Told | None = None,
    ascii: bool = False,
) -> Iterable[RenderableType]:
    """One kernel explained: sentence, gauges, up to three findings, its hottest lines, NVIDIA's remarks, notes."""
    level = level or level_of(diagnosis)
    kernel = diagnosis.kernel
    title = Text(safe(kernel.name), style="bold")
    title.append(f"  {units.duration(kernel.duration_ns)}")
    yield title
    facts = (*what_it_is(diagnosis.identity, words, diagnosis.transformer_op), launch_shape(kernel, words))
    yield Text(" · ".join(facts), style="dim")
    if kernel.nvtx:
        yield Text(f"NVTX {' / '.join(map(safe, kernel.nvtx))}", style="dim")
    if len(launches) > 1:
        total = sum(one.kernel.duration_ns or 0 for one in launches) or None
        key = "explain.launches" if total is not None else "explain.launches-untimed"
        yield Text(words.text(key, count=len(launches), time=total, each=kernel.duration_ns), style="dim")
    differs = expectation(diagnosis, words)
    yield Padding(Text(words.verdict(diagnosis.verdict), style="bold cyan"), (1, 0, 0 if differs else 1, 0))
    if differs:
        yield Padding(Text(differs), (0, 0, 1, 0))
    yield _gauges(diagnosis, words, ascii)
    yield from _roofline(diagnosis, words)
    if not diagnosis.main and not diagnosis.verdict.at_roof:
        key = "nothing-unknown" if diagnosis.verdict.id == "unknown" else "nothing"
        yield Padding(Text(words.text(f"explain.{key}")), (1, 0, 0, 0))
    for number, finding in enumerate(diagnosis.main, 1):
        yield Text()
        place = told.place_of(finding, number, kernel) if told is not None else None
        yield _finding(number, finding, diagnosis, words, level, source, place)
    yield from _lines(source, words, ascii)
    further = (*diagnosis.further, *_of_other_launches(diagnosis, launches))
    for heading, others in (("also", further), ("effects", diagnosis.effects)):
        if others:
            yield Text()
            yield Text(words.text(f"explain.{heading}"), style="dim")
        for finding in others:
            line = f"- {words.finding(finding).title}"
            if diagnosis.verdict.at_roof:
                line += f" ({gain_beside(finding, diagnosis, words)})"
            yield Padding(Text(line, style="dim"), (0, 0, 0, 2))
    yield from _remarks(remarks, diagnosis, words)
    for finding in diagnosis.validity:
        if finding.id != "single-launch":
            yield Text(f"{words.text('explain.note')}: {words.finding(finding).title}", style="dim")


def _of_other_launches(diagnosis: Diagnosis, launches: Sequence[Diagnosis]) -> Iterable[Finding]:
    """What is told of a group of launches, where the one explained is in no group and others of its function are."""
    known = {finding.id for finding in diagnosis.findings}
    for launch in launches:
        for finding in launch.main:
            if finding.family == "fusion" and finding.id not in known:
                known.add(finding.id)
                yield finding


def told_line(title: str, told: tuple[int, str], words: Wording) -> str:
    """The title of a finding that stands in full under another kernel, and where."""
    number, kernel = told
    return words.text("explain.told", title=title, number=number, kernel=shorten(safe(kernel), _NAME_CELLS))


def gain(finding: Finding, words: Wording) -> str:
    """ "up to 3.5×", "minor", or that it is not known."""
    if finding.max_speedup is None:
        return words.text("explain.gain-unknown")
    if finding.severity == "info" and not finding.option:
        return words.text("explain.gain-none")
    return words.text("explain.gain", gain=finding.max_speedup)


def gain_beside(finding: Finding, diagnosis: Diagnosis, words: Wording) -> str:
    """The same of a finding that is only named: in a kernel at its roof a minor one is hidden by that roof."""
    at_its_roof = diagnosis.verdict.at_roof and finding.severity == "info" and not finding.option
    if at_its_roof and finding.max_speedup is not None:
        return words.text(f"explain.gain-{diagnosis.verdict.variant}")
    return gain(finding, words)


def sureness(finding: Finding, words: Wording) -> str:
    """How far to trust a finding, in words: from 0.75 and from 0.5 on."""
    level = "high" if finding.confidence >= 0.75 else "medium" if finding.confidence >= 0.5 else "low"
    return words.text(f"explain.sure-{level}")


def _lines(source: Source | None, words: Wording, ascii: bool) -> Iterable[RenderableType]:
    """The hottest lines, where the report has samples by instruction."""
    if source is None or not source.samples:
        return
    yield Text()
    yield Text(words.text("source.hottest" if source.has_source else "source.hottest_instructions"), style="dim")
    rows = [
        (
            units.share(line.share_pct),
            bar(line.share_pct, 100, 8, ascii=ascii),
            line_name(line, words),
            code_of(line),
            mark_of(line, words) or (stall_name(line.stalls[0].reason, words) if line.stalls else ""),
        )
        for line in source.lines[:SHOWN_LINES]
        if line.samples
    ]
    table = Table.grid(padding=(0, 2), expand=True)
    for column in range(5):
        # The code gives way, the rest stays whole.
        ratio = 1 if column == _CODE_COLUMN else None
        table.add_column(justify="right" if column == 0 else "left", no_wrap=True, ratio=ratio)
    for row in rows:
        table.add_row(*map(Text, row))
    yield table


def _remarks(remarks: Sequence[Remark], diagnosis: Diagnosis, words: Wording) -> Iterable[RenderableType]:
    """NVIDIA's remarks that claim something, each beside what we say of it."""
    found = claims(remarks, diagnosis, words)
    if not found:
        return
    yield Text()
    yield Text(words.ui("nvidia_rules"), style="dim")
    for titles, answer in found:
        yield Padding(Text(f"- {titles}: {answer}", style="dim"), (0, 0, 0, 2))


def _finding(
    number: int,
    finding: Finding,
    diagnosis: Diagnosis,
    words: Wording,
    level: ReaderLevel,
    source: Source | None,
    told: tuple[int, str] | None = None,
) -> RenderableType:
    """A finding in full, or where it was ``told`` already in one line."""
    text = words.finding(finding, diagnosis.tags)
    if told is not None:
        return finding_head(number, told_line(text.title, told, words), finding, words)
    place = placed(source, finding)
    where = None
    if place is not None:
        where = Text(words.text("source.at", place=line_name(place.line, words)), style="bold")
        where.append(f"  {code_of(place.line)}", style="not bold")
        where.append(f"  ({place_share(place, words)})", style="dim not bold")
    return finding_block(number, text, finding, words, level, where)


def finding_head(number: int, title: str, finding: Finding, words: Wording) -> RenderableType:
    """A finding in one line: its number, its title, its gain."""
    head = Table.grid(padding=(0, 2), expand=True)
    head.add_column()
    head.add_column(ratio=1)
    head.add_column(no_wrap=True, justify="right")
    head.add_row(Text(f"{number}", style="bold"), Text(title, style="bold"), Text(gain(finding, words), "bold green"))
    return head


def finding_block(
    number: int, text: FindingText, finding: Finding, words: Wording, level: ReaderLevel, where: Text | None = None
) -> RenderableType:
    """A finding in full."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    if where is not None:
        table.add_row(words.text("source.where"), where)
    table.add_row(words.text("explain.why"), Text(text.why))
    table.add_row(words.text("explain.picture"), Text(text.analogy, style="italic"))
    for index, action in enumerate(text.actions[level]):
        table.add_row(words.text("explain.do") if index == 0 else "", Text(action))
    table.add_row(words.text("explain.check"), Text(text.verify))
    table.add_row(words.text("explain.sure"), Text(sureness(finding, words)))
    whole = Table.grid(expand=True)
    whole.add_row(finding_head(number, text.title, finding, words))
    whole.add_row(Padding(table, (0, 0, 0, 3)))
    return whole


def gauge_rows(diagnosis: Diagnosis) -> tuple[tuple[str, float | None], ...]:
    """The percentages shown first: the key of each one's label under ``ui.gauge``, and its value.

    The memory's is NVIDIA's own figure, or without it the busiest of its levels; the cache is the busier one. A GPU
    without tensor cores has none to show.
    """
    gauges, device = diagnosis.gauges, diagnosis.kernel.device
    without_tensor = device.compute_capability is not None and not features_of(device).tensor_cores
    l1_leads = (gauges.l1_pct or 0) > (gauges.l2_pct or 0)
    cache = ("l1", gauges.l1_pct) if l1_leads else ("l2", gauges.l2_pct)
    return (
        ("sm", gauges.sm_pct),
        ("memory", gauges.busiest_memory_pct if gauges.memory_pct is None else gauges.memory_pct),
        cache,
        ("dram-at-least" if gauges.dram_at_least else "dram", gauges.dram_pct),
        *(() if without_tensor else (("tensor", gauges.tensor_pct),)),
        ("occupancy", gauges.achieved_occupancy_pct),
        ("warps", gauges.warp_execution_efficiency_pct),
    )


def _gauges(diagnosis: Diagnosis, words: Wording, ascii: bool) -> RenderableType:
    gauges = diagnosis.gauges
    table = Table.grid(padding=(0, 2))
    achieved = [
        text
        for value, text in (
            (gauges.achieved_flop_per_s, units.flops(gauges.achieved_flop_per_s)),
            (gauges.dram_bytes_per_s, f"{units.rate(gauges.dram_bytes_per_s)} DRAM"),
        )
        if value is not None
    ]
    table.add_row(words.ui("gauge.achieved"), "", " · ".join(achieved) or units.DASH)
    for key, value in gauge_rows(diagnosis):
        unused = key == "tensor" and value == 0
        text = words.text("explain.not-used") if unused else units.percent(value)
        table.add_row(words.ui(f"gauge.{key}"), bar(value, 100, 20, ascii=ascii), text)
    return table


def _roofline(diagnosis: Diagnosis, words: Wording) -> Iterable[RenderableType]:
    roofline = diagnosis.roofline
    if roofline.roof_fraction is not None and roofline.point is not None:
        sentence = words.text(
            "explain.roofline",
            fraction=100 * roofline.roof_fraction,
            precision=roofline.precision,
            peak=roofline.peak_flop_per_s,
            intensity=roofline.arithmetic_intensity,
            ridge=roofline.ridge,
        )
        yield Text(f"{sentence} {words.text(f'explain.roofline-source-{roofline.peak_source}')}", style="dim")
    elif roofline.dram_bytes_per_s is not None and roofline.dram_peak_bytes_per_s is not None:
        yield Text(
            words.text("explain.bandwidth", rate=roofline.dram_bytes_per_s, peak=roofline.dram_peak_bytes_per_s),
            style="dim",
        )


def _kernel_table(
    groups: Sequence[Sequence[Diagnosis]], total: float | None, words: Wording, ascii: bool
) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True, width=6)
    table.add_column(no_wrap=True, width=8)
    table.add_column(justify="right", no_wrap=True, width=8)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for launches in groups[: 2 * SHOWN_KERNELS]:
        time = sum(one.kernel.duration_ns or 0 for one in launches) or None
        share = 100 * time / total if time and total else None
        name = shorten(safe(launches[0].kernel.name), _NAME_CELLS)
        table.add_row(
            units.share(share),
            bar(share, 100, 8, ascii=ascii),
            units.duration(time),
            f"{name} ×{len(launches)}" if len(launches) > 1 else name,
            words.verdict_name(launches[0].verdict.id),
        )
    return table


def _not_told(groups: Sequence[Sequence[Diagnosis]], words: Wording) -> Iterable[RenderableType]:
    told = not_told(groups[0][0].not_checked, words, groups[0][0].kernel.device) if groups else not_told((), words)
    if told.what is not None:
        yield Text()
        yield Text(f"{words.text('explain.not-told')} {told.what}")
        yield Padding(Text(words.text("explain.not-told-command", command=told.command)), (0, 0, 0, 2))
    if told.version is not None:
        yield Padding(Text(told.version), (0, 0, 0, 2))
    if told.never is not None:
        if told.what is None:
            yield Text()
        yield Text(f"{words.text('explain.not-told-never')} {told.never}", style="dim")


def sides(dim: Dim3 | None) -> str:
    """ "128 × 256": without the last sides that are 1."""
    if dim is None:
        return units.DASH
    kept = list(dim)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " × ".join(units.count(side) for side in kept)
