/* Detects whether a page is light or dark by its real background, in any theme of Sphinx. */
"use strict";
(() => {
  const root = document.documentElement;
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  /* Red, green, blue and opacity of a CSS color in any notation, 0 to 255. */
  function channels(color) {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  }

  function isDark() {
    const figure = document.querySelector(".torchrecorder-light");
    for (let element = figure?.parentElement; element; element = element.parentElement) {
      const [red, green, blue, opacity] = channels(getComputedStyle(element).backgroundColor);
      if (opacity > 127) return 0.299 * red + 0.587 * green + 0.114 * blue < 110;
    }
    return getComputedStyle(root).colorScheme === "dark";
  }

  function update() {
    const paper = isDark() ? "dark" : "light";
    if (root.dataset.torchrecorderPaper !== paper) root.dataset.torchrecorderPaper = paper;
  }

  const observer = new MutationObserver(update);
  const attributeFilter = [
    "class", "data-theme", "data-mode", "data-bs-theme", "data-md-color-scheme",
  ];
  for (const element of [root, document.body]) observer.observe(element, { attributeFilter });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  update();
})();
