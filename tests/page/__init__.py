"""The page: its data, its file, and how it behaves in a browser."""
