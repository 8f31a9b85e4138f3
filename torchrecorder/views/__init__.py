"""Views: a recording as a smaller graph, by steps that close, fold, hide and group."""
