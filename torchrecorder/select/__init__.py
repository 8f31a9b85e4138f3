"""Select: parts of a recording, and grouped siblings, as new recordings."""
