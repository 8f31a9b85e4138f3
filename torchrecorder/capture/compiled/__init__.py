"""The graphs into which ``torch.compile`` compiles a model, and the graph breaks."""
