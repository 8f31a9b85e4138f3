// Color: colors of a perceptually uniform scale for numbers, and readable colors of text.

"use strict";

const color = (() => {
  const READABLE = 4.5, OPACITIES = [0.74, 0.82, 0.9];
  const channels = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16) / 255);
  const hexOf = part =>
    Math.round(255 * Math.min(1, Math.max(0, part))).toString(16).padStart(2, "0");
  const toLinear = part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const toGamma = part => (part <= 0.0031308 ? part * 12.92 : 1.055 * part ** (1 / 2.4) - 0.055);

  // A color in Oklab, a perceptually uniform color space.
  function toLab(hex) {
    const [r, g, b] = channels(hex).map(toLinear);
    const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return [
      0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
      1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
      0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
    ];
  }

  function toHex([lightness, a, b]) {
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    return "#" + [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ].map(part => hexOf(toGamma(Math.max(part, 0)))).join("");
  }

  // A function from 0..1 to a color between those of `stops`.
  function ramp(stops) {
    const labs = stops.map(toLab), last = labs.length - 1;
    return share => {
      const at = Math.min(1, Math.max(0, share)) * last, low = Math.min(Math.floor(at), last - 1);
      return toHex(labs[low].map((part, axis) => part + (at - low) * (labs[low + 1][axis] - part)));
    };
  }

  // The relative luminance of a color, 0 to 1.
  function luminance(hex) {
    const [r, g, b] = channels(hex).map(toLinear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };

  // The color of text on `fill`: dark gray or white, black if neither is readable.
  function ink(fill) {
    const best = inks => inks.reduce((one, other) =>
      (contrast(fill, other) > contrast(fill, one) ? other : one));
    const soft = best(["#1b1f24", "#ffffff"]);
    return contrast(fill, soft) >= READABLE ? soft : best([soft, "#000000"]);
  }

  // The opacity of small text on `fill`: less than that of titles, if it is readable.
  function opacity(text, fill) {
    if (![text, fill].every(hex => /^#[0-9a-f]{6}$/i.test(hex))) return OPACITIES[0];
    const [ink, below] = [text, fill].map(channels);
    const mixed = share => "#" + ink.map((part, at) =>
      hexOf(share * part + (1 - share) * below[at])).join("");
    return OPACITIES.find(share => contrast(mixed(share), fill) >= READABLE) ?? 1;
  }

  // The range of `values`, and `at`, the position of a number in it, 0..1. The range of sums begins
  // at 0, so that the color is the share; with `log`, it is logarithmic. If all are equal, they are
  // the largest; zeros the smallest.
  function scale(values, { log = false, sum = false, range = null } = {}) {
    const known = values.filter(value => Number.isFinite(value) && (!log || value > 0));
    let low = sum && !log && known.length ? 0 : Infinity, high = -Infinity;
    for (const value of known) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (range) [low, high] = range;
    if (!(low <= high)) return { low: null, high: null, log: false, at: () => null };
    const isLog = log && low > 0, transform = isLog ? Math.log : value => value;
    const begin = transform(low), extent = transform(high) - begin;
    const at = value => {
      if (value === null || Number.isNaN(value)) return null;
      if (isLog && value <= 0) return 0;
      return extent > 0 ? Math.min(1, Math.max(0, (transform(value) - begin) / extent)) : Number(value !== 0);
    };
    return { low, high, log: isLog, at };
  }

  return { ramp, ink, opacity, contrast, scale, toLab, toHex };
})();
