"""Page data: the data of the interactive page, all boxes, clusters and folds as JSON columns."""
