"""Schedules: when they fire (pure functions of time), what is stored of them, and the loop that starts their runs."""
