"""The graphs that ``torch.compile`` makes of a model, and the graph breaks."""
