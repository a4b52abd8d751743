/* The rows of a report: found by their key, drawn as waterfalls.  Texts are set as text, never as HTML. */
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("rows").textContent);
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const place = new Map([...LETTERS].map((letter, at) => [letter, at]));
  const nKeys = data.keys.length;
  const nParts = data.parts.length;
  const held = new Map();
  const form = document.getElementById("search");
  const said = document.getElementById("said");
  const shown = document.getElementById("row");
  let waiting = null;
  let sorted = null;

  /* A whole number in digits of base 64, the lowest first. */
  function whole(text, at, width) {
    let sum = 0;
    for (let i = width - 1; i >= 0; i--) sum = sum * 64 + place.get(text[at + i]);
    return sum;
  }

  /* A number of six digits and a power of ten; NaN where there is none. */
  function number(text, at) {
    if (text[at] === "!") return NaN;
    const code = whole(text, at, 5);
    return Number((code % 2e6) - 1e6 + "e" + (Math.floor(code / 2e6) - 268));
  }

  function comparedTexts(a, b) {
    const one = [...a];
    const other = [...b];
    for (let i = 0; i < Math.min(one.length, other.length); i++) {
      const gap = one[i].codePointAt(0) - other[i].codePointAt(0);
      if (gap) return gap;
    }
    return one.length - other.length;
  }

  /* The order of two keys, column by column: whole numbers by size, texts by their letters. */
  function compared(a, b) {
    for (let i = 0; i < nKeys; i++) {
      if (a[i] === b[i]) continue;
      if (!data.keys[i].is_number) return comparedTexts(a[i], b[i]);
      if (BigInt(a[i]) !== BigInt(b[i])) return BigInt(a[i]) < BigInt(b[i]) ? -1 : 1;
    }
    return 0;
  }

  /* The place of the first of these sorted rows or keys that is not before a key. */
  function placeOf(rows, key) {
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compared(rows[middle], key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* One row, read: values by feature, and for each part its attributions, largest first. */
  function read(row) {
    const base = data.base || row.slice(nKeys + nParts, nKeys + 2 * nParts);
    let at = nKeys + (data.base ? 1 : 2) * nParts;
    const step = data.width + 5;
    const predictions = row.slice(nKeys, nKeys + nParts);
    const parts = data.parts.map((part, i) => {
      const text = row[at++];
      const phi = [];
      for (let j = 5; j < text.length; j += step) {
        phi.push([whole(text, j, data.width), number(text, j + data.width)]);
      }
      const chances = [probability(part, base), probability(part, predictions)];
      return { part, base: base[i], prediction: row[nKeys + i], small: number(text, 0), phi, chances };
    });
    const values = new Map();
    for (let j = 0; j < row[at].length; j += step) {
      const feature = whole(row[at], j, data.width);
      values.set(feature, valueText(data.columns[feature], number(row[at], j + data.width)));
    }
    for (const [feature, text] of Object.entries(row[at + 1] || {})) {
      values.set(Number(feature), named(data.columns[feature], text) || text);
    }
    return { key: row.slice(0, nKeys), parts, values };
  }

  /* The name of a value in the dictionary of columns. */
  function named(column, value) {
    return column.values && column.values[String(value)];
  }

  /* A number of a column as people read it: with its name, format and unit. */
  function valueText(column, value) {
    if (!Number.isFinite(value)) return "missing";
    const name = named(column, value);
    if (name !== undefined) return name;
    if (column.year) return String(value);
    const shown = column.percent ? 100 * value : value;
    const text = column.digits === undefined ? plain(shown) : fixed(shown, column.digits);
    return text + (column.percent ? "\u202f%" : "") + (column.unit ? " " + column.unit : "");
  }

  /* A number in at most six digits, thousands marked. */
  function plain(value) {
    const size = Math.abs(value);
    if (size && (size < 1e-4 || size >= 1e15)) return String(Number(value.toPrecision(4))).replace("-", "\u2212");
    return value.toLocaleString("en", { maximumSignificantDigits: 6 }).replace("-", "\u2212");
  }

  /* The probability of a part, from the predictions or base values of all parts; null where it has none. */
  function probability(part, numbers) {
    const own = numbers[data.parts.indexOf(part)];
    if (!part.probability || !Number.isFinite(own)) return null;
    if (part.probability === "probability") return own;
    if (part.probability === "logistic") return 1 / (1 + Math.exp(-own));
    const all = numbers.filter((_, i) => data.parts[i].name === part.name);
    const top = Math.max(...all);
    return Math.exp(own - top) / all.reduce((sum, each) => sum + Math.exp(each - top), 0);
  }

  function percent(share) {
    const shown = 100 * share;
    if (shown > 0 && shown < 0.05) return "below 0.1\u202f%";
    if (shown < 100 && shown > 99.95) return "above 99.9\u202f%";
    return shown.toFixed(shown < 10 || shown > 90 ? 1 : 0) + "\u202f%";
  }

  /* The place of the selected output. */
  function tab() {
    return [...document.querySelectorAll("input[name=output]")].findIndex((each) => each.checked);
  }

  function partsShown() {
    const chosen = Math.max(tab(), 0);
    return data.parts.filter((part) => part.tab === chosen);
  }

  /* Decimals that give the largest number four digits. */
  function decimals(numbers) {
    const largest = Math.max(...numbers.filter(Number.isFinite).map(Math.abs), 0);
    return largest ? Math.min(12, Math.max(0, 3 - Math.floor(Math.log10(largest)))) : 0;
  }

  function fixed(value, digits, sign) {
    if (!Number.isFinite(value)) return "\u2014";
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    const text = Math.abs(value).toLocaleString("en", options);
    if (value < 0 && /[1-9]/.test(text)) return "\u2212" + text;
    return (sign ? "+" : "") + text;
  }

  function element(name, attributes, ...inside) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  }

  function drawn(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  /* A key without what moves a cursor or turns the reading order. */
  function printable(text) {
    const obeyed = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
    return text.replace(obeyed, (each) => "\\u" + each.charCodeAt(0).toString(16).padStart(4, "0"));
  }

  function nameOf(feature, values) {
    const value = values.get(feature);
    return value === undefined ? data.features[feature] : data.features[feature] + " = " + value;
  }

  function stepsOf(each, values) {
    const steps = each.phi.map(([feature, phi]) => ({ name: nameOf(feature, values), phi }));
    const others = data.features.length - steps.length;
    if (others) steps.push({ name: others + " others", phi: each.small });
    return steps;
  }

  /* A waterfall of steps, each a name and an attribution, the first on top: from the base value below to the prediction. */
  function waterfall(each, steps) {
    let at = each.base;
    const bars = [...steps].reverse().map((step) => ({ ...step, start: at, end: (at += step.phi) })).reverse();
    const ends = [each.base, each.prediction, ...bars.flatMap((step) => [step.start, step.end])];
    const low = Math.min(...ends);
    const span = Math.max(...ends) - low || 1;
    const scale = (value) => (2 + (96 * (value - low)) / span).toFixed(2) + "%";
    const digits = decimals(steps.map((step) => step.phi));
    const chart = element("div", { class: "chart", "aria-hidden": "true" });
    for (const step of bars) {
      chart.append(element("div", { class: "line" },
        element("span", { class: "name" }, step.name),
        bar(step, scale, [each.base, each.prediction]),
        element("span", { class: "number" }, fixed(step.phi, digits, true))));
    }
    chart.append(axisOf(each, decimals([each.base, each.prediction]), scale));
    return chart;
  }

  /* The numbers of a waterfall, folded: heads of columns, and lines of a name and its cells. */
  function numbersOf(heads, lines, name, isOpen) {
    const head = element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)));
    const body = lines.map(([first, ...cells]) =>
      element("tr", {}, element("th", { scope: "row" }, first), ...cells.map((each) => element("td", {}, each))));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
    return element("details", isOpen ? { open: "" } : {},
      element("summary", {}, "The numbers as a table"),
      element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": name }, table));
  }

  function bar(step, scale, marks) {
    const svg = drawn("svg", { class: "bar", width: "100%", height: "22", "aria-hidden": "true" });
    for (const mark of marks) {
      svg.append(drawn("line", { x1: scale(mark), x2: scale(mark), y1: 0, y2: 22, class: "mark" }));
    }
    const low = Math.min(step.start, step.end);
    const wide = parseFloat(scale(Math.max(step.start, step.end))) - parseFloat(scale(low));
    const kind = step.phi < 0 ? "down" : "up";
    svg.append(drawn("rect", { x: scale(low), y: 3, width: Math.max(wide, 0.2) + "%", height: 16, class: kind }));
    return svg;
  }

  /* The base value and the prediction below the bars, at their marks. */
  function axisOf(each, digits, scale) {
    const svg = drawn("svg", { class: "axis", width: "100%", height: "34", "aria-hidden": "true" });
    const isLeft = each.base < each.prediction;
    for (const [end, value, y] of [[0, each.base, 14], [1, each.prediction, 30]]) {
      const left = end === 0 ? isLeft : !isLeft;
      const chance = each.chances[end];
      const text = drawn("text", { x: scale(value), y, "text-anchor": left ? "start" : "end" });
      const name = (each.ends || ["rows in general ", "this row "])[end];
      text.textContent = name + fixed(value, digits) + (chance === null ? "" : " (" + percent(chance) + ")");
      svg.append(text);
    }
    return element("div", { class: "line" }, element("span"), svg, element("span"));
  }

  function figure(each, values, key) {
    const made = element("figure", { class: "waterfall" });
    if (partsShown().length > 1) made.append(element("h3", {}, each.part.name));
    if (each.phi.some(([, phi]) => Number.isNaN(phi)) || each.prediction === null) {
      made.append(element("p", {}, "This row has no attributions: it was skipped, or it failed."));
      return made;
    }
    const steps = stepsOf(each, values);
    const digits = decimals(steps.map((step) => step.phi));
    const wide = decimals([each.base, each.prediction]);
    const largest = steps[0];
    const moved = largest.phi === 0 ? "no feature moves it." : largest.name + " moves it most, by " + fixed(largest.phi, digits, true) + ".";
    const margins = [fixed(each.base, wide), fixed(each.prediction, wide)];
    const [from, to] = each.chances[0] === null ? margins : each.chances.map(percent);
    const behind = each.chances[0] === null || each.part.probability === "probability" ? "" : " (" + [each.part.units.trim().replace(/^\(|\)$/g, ""), margins.join(" \u2192 ")].filter(Boolean).join(" ") + ")";
    const units = each.chances[0] === null ? each.part.units : "";
    const sentence =
      "The prediction of " + key + " goes from " + from + " for rows in general to " + to + units + behind + "; " + moved;
    made.append(element("figcaption", {}, sentence));
    const lines = steps.map((step) => [step.name, fixed(step.phi, digits, true)]);
    lines.push(["base value", fixed(each.base, wide)], ["prediction", fixed(each.prediction, wide)]);
    made.append(waterfall(each, steps), numbersOf(["feature", "attribution"], lines, "numbers of the row"));
    return made;
  }

  let current = null;
  let opened = null;

  function keyText(key) {
    return data.keys.map((column, i) => column.name + " " + printable(key[i])).join(", ");
  }

  function addressOf(key) {
    return "#row=" + key.map(encodeURIComponent).join(",");
  }

  function show(row) {
    current = row;
    const found = read(row);
    const key = keyText(found.key);
    const parts = found.parts.filter((each) => partsShown().includes(each.part));
    shown.replaceChildren(...parts.map((each) => figure(each, found.values, key)));
    said.replaceChildren("Row " + key + ".  ", element("a", { href: addressOf(found.key) }, "Link to this row"));
    const output = tab() < 0 ? null : partsShown()[0].output;
    open({ ...found, output });
  }

  /* Let the other scripts hear of the row that is shown, or of none. */
  function open(row) {
    opened = row;
    document.dispatchEvent(new CustomEvent("dshap:row", { detail: row }));
  }

  function missing(key, rows, at, after) {
    const near = [rows[at - 1], rows[at] || after].filter(Boolean);
    const names = near.map((row) => printable(row.slice(0, nKeys).join(", "))).join(" and ");
    const where = data.files ? "No row has the key " : "This page has no row with the key ";
    const hint = data.files || data.rows.length === data.n_rows ? "" : " It has " + data.rows.length.toLocaleString("en") + " of " + data.n_rows.toLocaleString("en") + " rows; a page with its folder of rows has them all (dshap report --all-rows).";
    current = null;
    shown.replaceChildren();
    open(null);
    said.textContent = where + printable(key.join(", ")) + (names ? ": near it are " + names + "." : ".") + hint;
  }

  function search(rows, key, after) {
    const at = placeOf(rows, key);
    if (at < rows.length && compared(rows[at], key) === 0) show(rows[at]);
    else missing(key, rows, at, after);
  }

  /* Called by a file of rows. */
  window.dshapRows = function (file, rows) {
    held.set(file, rows.sort(compared));
  };

  function load(key) {
    const file = Math.max(placeOf(data.files.first, key) - 1, 0);
    const next = data.files.first[file + 1];
    const exact = next && compared(next, key) === 0 ? file + 1 : file;
    const go = () => search(held.get(exact), key, data.files.first[exact + 1]);
    waiting = key;
    if (held.has(exact)) return go();
    const name = data.files.folder + "/" + String(exact).padStart(6, "0") + ".js";
    const script = element("script", { src: name.split("/").map(encodeURIComponent).join("/") });
    said.textContent = "Reading " + name + " \u2026";
    script.onload = () => waiting === key && (held.has(exact) ? go() : script.onerror());
    script.onerror = () => {
      said.textContent = name + " cannot be read: the folder " + data.files.folder + " belongs beside this page.";
    };
    document.head.append(script);
  }

  function find(given) {
    const key = given || data.keys.map((column, i) => form.elements["key" + i].value.trim());
    const bad = data.keys.findIndex((column, i) => column.is_number && !/^[-+]?\d+$/.test(key[i]));
    if (bad >= 0) {
      current = null;
      shown.replaceChildren();
      open(null);
      said.textContent = "\u201c" + printable(key[bad]) + "\u201d is no whole number, as " + data.keys[bad].name + " is: give one such as " + data.rows[0][bad] + ".";
      return;
    }
    sorted = sorted || [...data.rows].sort(compared);
    const at = placeOf(sorted, key);
    if (at < sorted.length && compared(sorted[at], key) === 0) return show(sorted[at]);
    if (data.files) return load(key);
    search(sorted, key, null);
  }

  function choose(row) {
    data.keys.forEach((column, i) => (form.elements["key" + i].value = row[i]));
    show(row);
  }

  /* The row that the address of the page names, such as #row=1234567. */
  function follow() {
    if (!location.hash.startsWith("#row=")) return false;
    const key = location.hash.slice(5).split(",").map(decoded);
    data.keys.forEach((column, i) => (form.elements["key" + i].value = key[i] || ""));
    if (key.length !== data.keys.length) said.textContent = "An address names a row by " + data.keys.length + " columns: #row=" + data.keys.map((column) => column.name).join(",") + ".";
    else find(key);
    document.getElementById("one").scrollIntoView();
    return true;
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    find();
  });
  for (const radio of document.querySelectorAll("input[name=output]")) {
    radio.addEventListener("change", () => current && show(current));
  }
  for (const button of form.querySelectorAll("button[data-order]")) {
    button.addEventListener("click", () => {
      const sign = Number(button.dataset.order);
      const part = Math.max(data.parts.indexOf(partsShown()[0]), 0);
      const size = (row) => sign * row[nKeys + part];
      choose(data.rows.reduce((best, row) => (size(row) > size(best) ? row : best)));
    });
  }
  window.addEventListener("hashchange", follow);
  /* Folded parts of the page are printed too. */
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open]):not(.largest)")];
    for (const each of folded) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of folded) each.open = false;
  });

  form.hidden = false;
  if (!data.rows.length) said.textContent = "No row is explained yet.";
  else if (!follow()) choose(data.rows[0]);
  window.dshapPage = {
    data, nKeys, read, plain, fixed, decimals, percent, probability, element, waterfall, numbersOf, addressOf, printable,
    opened: () => opened,
  };
})();
