"""Independent witnesses of the engine: simple, slow, written from the definitions."""
