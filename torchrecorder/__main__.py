"""python -m torchrecorder."""

from __future__ import annotations

from torchrecorder.integrations.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
