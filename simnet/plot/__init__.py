"""Figures: functions that take values and an Axes, and return the Axes."""
