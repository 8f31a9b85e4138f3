/* Tell whether a page is light or dark, by the colour that it really has, whatever its theme. */
"use strict";
(() => {
  const root = document.documentElement;
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  /* Red, green, blue and opacity, 0 to 255, in whatever way the colour is spelled. */
  function parts(color) {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = color;
    paint.fillRect(0, 0, 1, 1);
    return paint.getImageData(0, 0, 1, 1).data;
  }

  function isDark() {
    const figure = document.querySelector(".torchrecorder-light");
    for (let each = figure && figure.parentElement; each; each = each.parentElement) {
      const [red, green, blue, opacity] = parts(getComputedStyle(each).backgroundColor);
      if (opacity > 127) return 0.299 * red + 0.587 * green + 0.114 * blue < 110;
    }
    return getComputedStyle(root).colorScheme === "dark";
  }

  function look() {
    const paper = isDark() ? "dark" : "light";
    if (root.dataset.torchrecorderPaper !== paper) root.dataset.torchrecorderPaper = paper;
  }

  const observer = new MutationObserver(look);
  const attributeFilter = ["class", "data-theme", "data-mode", "data-bs-theme", "data-md-color-scheme"];
  for (const each of [root, document.body]) observer.observe(each, { attributeFilter });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
  look();
})();
