"""Global state that a recording changes and restores."""
