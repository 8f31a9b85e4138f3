"""Parts of a recording: recordings of one module, and of made-up groups."""
