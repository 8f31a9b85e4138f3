"""Where things go: sizes of text, places of boxes, Graphviz in a process of its own."""
