"""Style: every text and color of a figure, before it has a format."""
