"""Where people meet it: command line, notebooks, pytest, Sphinx."""
