"""A run of many processes that are not there: planned on fake tensors, on one machine."""
