// Numbers: formats amounts as annotations define.

"use strict";

const numbers = (() => {
  const STEPS = ["", "k", "M", "G", "T", "P"];

  const short = value => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace("e+", "e");
    return String(Number(value.toPrecision(3)));
  };

  function stepped(value, unit) {
    let step = 0, left = value;
    while (Math.abs(left) >= 999.5 && step < STEPS.length - 1) {
      left /= 1000;
      step++;
    }
    const digits = step ? Number(left.toPrecision(3)).toString() : String(Math.round(left * 100) / 100);
    return `${digits} ${STEPS[step]}${unit}`.trimEnd();
  }

  function seconds(value) {
    if (value === 0) return "0 s";
    for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
      if (Math.abs(value) >= size * 0.9995) return `${Number((value / size).toPrecision(3))} ${unit}`;
    }
    return `${Number((value / 1e-9).toPrecision(3))} ns`;
  }

  const percent = share => (share > 0 && share < 0.001 ? "< 0.1 %"
    : `${Number((100 * share).toPrecision(share < 0.0995 ? 2 : 3))} %`);

  const FORMATS = {
    exact: value => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ","),
    bytes: value => stepped(value, "B"),
    seconds,
    flops: value => stepped(value, "FLOP"),
    share: value => `${Number((100 * value).toPrecision(3))} %`,
    number: short,
  };

  // `value` as text; nothing for null.
  function said(value, format) {
    if (value === null || value === undefined) return "";
    if (Number.isNaN(value)) return "nan";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    return (FORMATS[format] ?? short)(value);
  }

  // What an annotation says of an item, as text.
  function of(annotation, item, model) {
    if (annotation.texts) return model.text(annotation.texts[item] ?? -1);
    return said(annotation.values[item], annotation.format);
  }

  return { said, short, of, percent };
})();
