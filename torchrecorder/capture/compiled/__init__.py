"""What the compiler makes of a model: its graphs, and where they break."""
