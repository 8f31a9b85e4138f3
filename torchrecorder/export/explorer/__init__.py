"""The data of the page: all boxes, clusters and folds, as plain JSON in columns."""
