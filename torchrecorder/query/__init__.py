"""Query: finds parts of a recording, paths between them, and missing gradients."""
