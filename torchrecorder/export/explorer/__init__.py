"""The data of the page: everything that can be opened, as plain JSON in columns."""
