"""Global state of the process that a recording changes and restores."""
