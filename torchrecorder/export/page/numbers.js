// Numbers: numbers of annotations as text.

"use strict";

const numbers = (() => {
  const PREFIXES = ["", "k", "M", "G", "T", "P"];

  // Three significant digits.
  const rounded = value => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace("e+", "e");
    return String(Number(value.toPrecision(3)));
  };

  // With a unit and its prefix.
  function withUnit(value, unit) {
    let step = 0, scaled = value;
    while (Math.abs(scaled) >= 999.5 && step < PREFIXES.length - 1) {
      scaled /= 1000;
      step++;
    }
    const digits = step ? Number(scaled.toPrecision(3)) : Math.round(scaled * 100) / 100;
    return `${digits} ${PREFIXES[step]}${unit}`.trimEnd();
  }

  function seconds(value) {
    if (value === 0) return "0 s";
    for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
      if (Math.abs(value) >= size * 0.9995) {
        return `${Number((value / size).toPrecision(3))} ${unit}`;
      }
    }
    return `${Number((value / 1e-9).toPrecision(3))} ns`;
  }

  const percent = share => (share > 0 && share < 0.001 ? "< 0.1 %"
    : `${Number((100 * share).toPrecision(share < 0.0995 ? 2 : 3))} %`);

  const FORMATS = {
    exact: value => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ","),
    bytes: value => withUnit(value, "B"),
    seconds,
    flops: value => withUnit(value, "FLOP"),
    share: value => `${Number((100 * value).toPrecision(3))} %`,
    number: rounded,
  };

  // `value` as text in one of the formats; empty for null.
  function format(value, name) {
    if (value === null) return "";
    if (Number.isNaN(value)) return "nan";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    return (FORMATS[name] ?? rounded)(value);
  }

  // The number of an item as text; empty if it has none.
  function textOf(annotation, item, model) {
    if (annotation.texts) return model.text(annotation.texts[item]);
    const text = format(annotation.values[item], annotation.format);
    return annotation.means.includes(item) ? `${text} on average` : text;
  }

  // Annotations, the most important ones first.
  function ranked(annotations, ...others) {
    const first = [...others, "time", "flops", "parameters"];
    const rank = ({ key }) => (first.includes(key) ? first.indexOf(key) : first.length);
    return [...annotations].sort((one, other) => rank(one) - rank(other));
  }

  return { format, textOf, percent, ranked };
})();
