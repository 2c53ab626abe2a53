"""What the pages are about, put together from what is selected and what the workers have found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING

from gputui.analysis.nvidia_rules import relate_all
from gputui.render import timeline_rows
from gputui.render.text import level_of
from gputui.views.widgets.diagnosis import Subject
from gputui.views.widgets.timeline_diagnosis import TimelineSubject

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.roofline import Point
    from gputui.views.app import GputuiApp
    from gputui.views.library import Entry, ExplainedTimeline, LoadedReport
    from gputui.wording import ReaderLevel

_MOST_POINTS = 300
"""Points on one roofline: more would only cover each other."""


def level_for(host: GputuiApp, loaded: LoadedReport | None, diagnosis: Diagnosis | None) -> ReaderLevel:
    """The reader's level: the one that was chosen, else what fits the timeline, else what fits the kernel."""
    if host.level is not None:
        return host.level
    explained = host.library.explained(loaded)
    if explained is not None:
        return timeline_rows.level_of(explained.diagnosis)
    return level_of(diagnosis) if diagnosis is not None else "pytorch"


def of_launch(host: GputuiApp, entry: Entry | None) -> Subject | None:
    """What is known of a launch with counters."""
    if entry is None:
        return None
    diagnosis = host.diagnoses.get(entry.number)
    extras = host.extras.get(entry.number)
    remarks = relate_all(extras.rules, diagnosis) if extras is not None and diagnosis is not None else ()
    level = level_for(host, None, diagnosis)
    return Subject(entry, diagnosis, extras, level, host.sources.get(entry.number), remarks)


def of_timeline(host: GputuiApp, loaded: LoadedReport | None, entry: Entry | None) -> TimelineSubject | None:
    """A timeline, and one of its kernels with what an ncu report says of it."""
    if loaded is None or loaded.facts is None:
        return None
    explained = host.library.explained(loaded)
    subject = TimelineSubject(
        loaded.report,
        level_for(host, loaded, None),
        None if explained is None else explained.diagnosis,
        entry,
        None if entry is None else host.library.share_of(entry),
    )
    link = None if entry is None else host.library.links.get(entry.number)
    if link is None:
        return subject
    return replace(
        subject,
        link=link,
        link_file=host.library.name_of(link.entry.report),
        counted=of_launch(host, link.entry),
    )


def moments_of(explained: ExplainedTimeline | None) -> list[Finding]:
    """The findings on a timeline that have a place in it, in the order in which they are told."""
    if explained is None:
        return []
    told = explained.diagnosis
    every = (*told.main, *told.further, *told.effects, *told.validity)
    return [one for one in every if one.moment is not None]


def points_of(entries: Sequence[Entry], diagnoses: Mapping[int, Diagnosis]) -> tuple[Point, ...]:
    """The DRAM points of the kernels that take the most time, named and numbered as the list has them."""
    longest = nlargest(_MOST_POINTS, entries, key=lambda entry: entry.duration_ns or 0.0)
    found = []
    for entry in longest:
        diagnosis = diagnoses.get(entry.number)
        if diagnosis is not None and diagnosis.roofline.point is not None:
            found.append(replace(diagnosis.roofline.point, kernel=entry.number, name=entry.title))
    return tuple(found)
