"""From a trace of the engine to the figures that answer the question."""
