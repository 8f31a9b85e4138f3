"""Select parts of a recording, and group siblings, as new recordings."""
