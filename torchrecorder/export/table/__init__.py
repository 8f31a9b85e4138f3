"""Tables for the terminal: rows by scope, folded, aligned."""
