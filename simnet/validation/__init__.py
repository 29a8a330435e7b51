"""Published measurements against predictions, and the calibration of constants."""
