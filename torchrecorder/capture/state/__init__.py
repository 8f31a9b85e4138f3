"""State of the process that a recording changes and puts back."""
