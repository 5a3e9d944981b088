"""
What screens show of a run, as data.

The command line and the dashboard draw the same records: where the time went, and why.  Nothing here prints or reads a
store.
"""

from weft.views.time_scale import Piece, TimeScale, time_scale
from weft.views.waterfall import REASONS, Bar, Reason, Row, Waterfall, waterfall

__all__ = ["REASONS", "Bar", "Piece", "Reason", "Row", "TimeScale", "Waterfall", "time_scale", "waterfall"]
