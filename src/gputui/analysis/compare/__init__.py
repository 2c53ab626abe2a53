"""Two reports compared: what a change did, how sure that is, and what to change next."""

from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.reports import Chosen, compare_reports
from gputui.analysis.compare.sides import counters_side
from gputui.analysis.compare.timelines import timeline_side

__all__ = ["Chosen", "compare", "compare_reports", "counters_side", "timeline_side"]
