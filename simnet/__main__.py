"""``python -m simnet``."""

from __future__ import annotations

from simnet.cli import main

if __name__ == "__main__":
    main()
