"""Integrations: command line, pytest, Sphinx, MkDocs, Lightning and others."""
