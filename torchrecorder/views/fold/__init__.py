"""Folding: repeated siblings as one box.

Siblings are the boxes and clusters of one parent. `blocks` gives each of them a key, equal for
those that may repeat; `block_clusters` puts a cluster around each block, a few siblings that repeat
together, which `periods` finds. `siblings` collects the groups that fold by a rule: `equal` also
compares their arrows (`connections`, `own_sources`), those between two rows as well (`parallel`),
and `Similar` compares little else than classes. `fold` joins the siblings of each group, and
`edges` decides which arrows are drawn.
"""
