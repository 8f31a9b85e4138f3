"""Table: tables for the terminal, with rows by scope, folded and aligned."""
