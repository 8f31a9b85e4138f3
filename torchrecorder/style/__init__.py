"""How a view looks: every text and colour of a figure, before it has a format."""
