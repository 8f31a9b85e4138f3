"""Mutation testing: small changes to the package that some test should notice."""
