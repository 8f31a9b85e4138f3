// Elements: the parts of the page that are made as they are needed.

"use strict";

// An element of a class, with text, and with others in it.
function make(tag, name, said, ...inside) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (said !== null && said !== undefined) made.textContent = said;
  made.append(...inside);
  return made;
}
