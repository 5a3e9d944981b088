"""
The data that screens show of a run.

The command line and the dashboard draw the same records: where the time went and why, what needs attention, and what a
value consists of.  Nothing here prints or reads a store.
"""

from weft.views.attention import Attention, Cell, Undriven, attention, importing, queued, strip, undriven
from weft.views.component_tree import TreeLine, component_tree
from weft.views.graph import page_graph
from weft.views.histogram import PeriodBar, histogram_bars
from weft.views.scatter import Point, Scatter, scatter
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
    "Point",
    "Reason",
    "Row",
    "Scatter",
    "TimeScale",
    "TreeLine",
    "Undriven",
    "ValueTree",
    "Waterfall",
    "attention",
    "component_tree",
    "histogram_bars",
    "importing",
    "page_graph",
    "queued",
    "scale_of",
    "scatter",
    "strip",
    "time_scale",
    "undriven",
    "value_tree",
    "waterfall",
]
