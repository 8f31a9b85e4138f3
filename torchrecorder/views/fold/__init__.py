"""Folding: repeated siblings as one box.

`blocks` gives each sibling a key, equal for those that may repeat; `repeat_groups` puts clusters
around sequences of siblings that repeat together, which `periods` and `rounds` find. `siblings`
collects the groups that fold by a rule: `equal` also compares their arrows (`connections`,
`own_sources`), those between two rows as well (`parallel`), and `Similar` compares little else than
classes. `fold` joins the siblings of each group, and `edges` decides which arrows are drawn.
"""
