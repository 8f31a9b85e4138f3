"""The look of a view: every text and colour of a figure, before it has a format."""
