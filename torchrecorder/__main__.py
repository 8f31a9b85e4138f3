"""``python -m torchrecorder``: the command line."""

import sys

from torchrecorder.integrations.cli import main

if __name__ == "__main__":
    sys.exit(main())
