// Elements: creates elements of HTML and SVG.

"use strict";

// A new HTML element with a class, a text and children; all but the tag may be missing.
function createElement(tag, className, text, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== null && text !== undefined) element.textContent = text;
  element.append(...children);
  return element;
}

// A new button.
function createButton(className, text, onClick, ...children) {
  const button = createElement("button", className, text, ...children);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

// Replaces the children of an element; if one of them has the focus, it stays in this place.
function replaceFocused(element, ...children) {
  const at = [...element.children].indexOf(document.activeElement);
  element.replaceChildren(...children);
  if (at >= 0) children[Math.min(at, children.length - 1)].focus({ preventScroll: true });
}

// A new SVG element; `attributes` and text are data and never read as markup.
function createSvgElement(tag, attributes, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  if (text !== null) element.textContent = text;
  return element;
}
