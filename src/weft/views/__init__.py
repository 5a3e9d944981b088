"""
The data that screens show of a run.

The command line and the dashboard draw the same records: where the time went and why, what needs attention, and what a
value consists of.  Nothing here prints or reads a store.
"""

from weft.views.attention import Attention, Cell, attention, strip
from weft.views.component_tree import TreeLine, component_tree
from weft.views.graph import page_graph
from weft.views.histogram import PeriodBar, histogram_bars
from weft.views.time_scale import Piece, TimeScale, scale_of, time_scale
from weft.views.value_tree import ValueTree, value_tree
from weft.views.waterfall import REASONS, Bar, Reason, Row, Waterfall, waterfall

__all__ = [
    "REASONS",
    "Attention",
    "Bar",
    "Cell",
    "PeriodBar",
    "Piece",
    "Reason",
    "Row",
    "TimeScale",
    "TreeLine",
    "ValueTree",
    "Waterfall",
    "attention",
    "component_tree",
    "histogram_bars",
    "page_graph",
    "scale_of",
    "strip",
    "time_scale",
    "value_tree",
    "waterfall",
]
