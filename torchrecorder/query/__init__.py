"""Questions about single parts of a recording: find them, paths between them, lost gradients."""
