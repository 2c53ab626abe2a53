"""What is selected: a kernel in the list, or NVTX ranges in the tree; and what of the reports belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.views import actions, ordering

if TYPE_CHECKING:
    from gputui.views.library import Entry, ExplainedTimeline, Library, LoadedReport, RangeContent
    from gputui.views.widgets.kernel_list import KernelList
    from gputui.views.widgets.nvtx_tree import RangeTree


class Selection:
    """``listing`` says which of the two stands on the left; ``held_to`` are the NVTX ranges whose kernels alone the
    list shows."""

    def __init__(self, library: Library, kernels: KernelList, ranges: RangeTree) -> None:
        self._library = library
        self._kernels = kernels
        self._ranges = ranges
        self.listing = actions.KERNELS
        self.held_to: RangeContent | None = None

    @property
    def list(self) -> KernelList | RangeTree:
        """What stands on the left."""
        return self._ranges if self.listing == actions.RANGES else self._kernels

    @property
    def entry(self) -> Entry | None:
        """The selected kernel; on the header of a group, its first one."""
        row = self._kernels.table.row
        if row is None:
            return None
        return self._library.entries[row if row >= 0 else self._kernels.data.first_of(ordering.group_of(row))]

    @property
    def counted(self) -> Entry | None:
        """The launch whose counters the pages show: the selected one, or that of a timeline's kernel."""
        entry = self.entry
        if entry is None or entry.timed is None:
            return entry
        linked = self._library.links.get(entry.number)
        return None if linked is None else linked.entry

    @property
    def loaded(self) -> LoadedReport | None:
        """The report of what is selected."""
        reports, entry = self._library.reports, self.entry
        if self.listing == actions.RANGES:
            known = self._library.timelines.items()
            return next((reports[number] for number, one in known if one.ranges is self._ranges.data.ranges), None)
        if entry is not None:
            return self._library.report_of(entry)
        return reports[0] if reports else None

    @property
    def is_timeline(self) -> bool:
        loaded = self.loaded
        return loaded is not None and loaded.facts is not None

    @property
    def timed(self) -> LoadedReport | None:
        """The report that the timeline shows: the selected one, or the first that is a timeline."""
        loaded = self.loaded
        if loaded is not None and loaded.facts is not None:
            return loaded
        return next((one for one in self._library.reports if one.facts is not None), None)

    @property
    def explained(self) -> ExplainedTimeline | None:
        """What is worked out of that one, as soon as it is known."""
        return self._library.explained(self.timed)
