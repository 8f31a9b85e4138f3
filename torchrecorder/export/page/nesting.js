// Nesting: the children of each item, and which siblings of a fold are shown.

"use strict";

// In the place of the chosen sibling of a fold: all of them.
const ALL_SIBLINGS = -1;

// The children of each item, at its index + 1; the items without a parent, at 0.
function childrenOf(parents) {
  const children = Array.from({ length: parents.length + 1 }, () => []);
  parents.forEach((parent, item) => children[parent + 1].push(item));
  return children;
}

// The children that are shown in `scope`: of a fold the chosen sibling, by default its first; all
// if `siblings`, the choices, are not given.
function shownChildren(items, children, scope, siblings) {
  const all = children[scope + 1];
  if (!siblings || !items.fold[scope]) return all;
  const chosen = siblings.get(scope) ?? all[0];
  return chosen === ALL_SIBLINGS ? all : [chosen];
}
