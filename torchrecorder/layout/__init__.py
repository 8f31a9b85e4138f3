"""Layout: sizes of text, positions of boxes, and Graphviz in a child process."""
