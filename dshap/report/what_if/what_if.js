/* What if: controls for the values of a row, whose prediction and attributions are recomputed here. */
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("what-if-data").textContent);
  const panel = document.getElementById("what-if");
  const models = data.models.map((model) => ({ ...model, explain: window.dshapGames(model) }));
  const takesMissing = models.some((model) => model.facts.takesMissing);
  const stored = data.values.map((each) => {
    const bytes = Uint8Array.from(atob(each.data), (letter) => letter.charCodeAt(0));
    return new window[each.type + "Array"](bytes.buffer);
  });
  const places = new Map(data.keys.map((key, place) => [JSON.stringify(key), place]));
  const MOST = 12;
  const DIGITS = 6;
  const QUIET_MS = 500;
  let opened = null;
  let own = [];
  let values = [];
  let found = [];
  let rowFound = [];
  let drawing = 0;
  let speaking = 0;

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

  /* A number in at most six digits, thousands marked. */
  function plain(value) {
    const size = Math.abs(value);
    if (size && (size < 1e-4 || size >= 1e15)) return String(Number(value.toPrecision(4))).replace("-", "\u2212");
    return value.toLocaleString("en", { maximumSignificantDigits: 6 }).replace("-", "\u2212");
  }

  function percent(share) {
    const shown = 100 * share;
    if (shown > 0 && shown < 0.05) return "below 0.1\u202f%";
    if (shown < 100 && shown > 99.95) return "above 99.9\u202f%";
    return shown.toFixed(shown < 10 || shown > 90 ? 1 : 0) + "\u202f%";
  }

  function decimals(numbers) {
    const largest = Math.max(...numbers.filter(Number.isFinite).map(Math.abs), 0);
    return largest ? Math.min(12, Math.max(0, 3 - Math.floor(Math.log10(largest)))) : 0;
  }

  function fixed(value, digits, sign) {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    const text = Math.abs(value).toLocaleString("en", options);
    if (value < 0 && /[1-9]/.test(text)) return "\u2212" + text;
    return (sign ? "+" : "") + text;
  }

  function textOf(place) {
    const column = data.columns[place];
    const value = values[place];
    if (Number.isNaN(value)) return "missing";
    if (column.kind === "category") return column.texts[value];
    if (column.kind === "boolean") return value ? "yes" : "no";
    return written(column, value);
  }

  /* A number in the format of its column, with its unit. */
  function written({ format, unit, isYear }, value) {
    if (isYear) return String(value);
    const behind = unit ? " " + unit : "";
    if (!format) return plain(value) + behind;
    const { decimals, isGrouped, isPercent } = format;
    const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping: isGrouped };
    const text = (isPercent ? 100 * value : value).toLocaleString("en", options) + (isPercent ? "\u202f%" : "");
    return text.replace("-", "\u2212") + behind;
  }

  /* What a model gets for the value of a column. */
  function numberOf(place) {
    const { numbers } = data.columns[place];
    const value = values[place];
    return numbers && !Number.isNaN(value) ? numbers[value] : value;
  }

  /* The numbers of every output of every model: [{model, output, prediction, base, phi}]. */
  function computed() {
    return models.flatMap((model) => {
      const numbers = model.explain(Float64Array.from(model.column, numberOf));
      return model.parts.map((part, output) => ({
        model,
        part,
        output: model.outputs[output],
        prediction: numbers.prediction[output],
        base: numbers.base[output],
        phi: numbers.phi[output],
      }));
    });
  }

  /* Whether the script's numbers of a row are those of the cube, as far as the page has their digits. */
  function faultOf(each) {
    const cube = opened.parts[each.part];
    const scale = each.phi.reduce((sum, phi) => sum + Math.abs(phi), Math.abs(each.base));
    const { facts, isSingle, error } = each.model;
    const slack = scale * (1e-8 + (facts.rounding || 0) + (isSingle ? 1e-6 : 0)) + each.phi.length * error;
    if (!(Math.abs(each.prediction - cube.prediction) <= slack)) {
      return "prediction " + plain(each.prediction) + " here, " + plain(cube.prediction) + " in the cube";
    }
    const mine = new Map(each.model.feature.map((feature, i) => [feature, each.phi[i]]));
    for (const [feature, phi] of cube.phi) {
      if (!(Math.abs((mine.get(feature) || 0) - phi) <= slack + 6e-6 * Math.abs(phi))) {
        return data.features[feature] + " " + plain(mine.get(feature) || 0) + " here, " + plain(phi) + " in the cube";
      }
    }
    return "";
  }

  function isShown(each) {
    return opened.output === null || opened.output === opened.parts[each.part].part.output;
  }

  function nameOf(each, i) {
    const { model } = each;
    const columns = model.column.filter((_, j) => model.player[j] === i);
    const name = data.features[model.feature[i]];
    return columns.length === 1 ? name + " = " + textOf(columns[0]) : name;
  }

  /* A bar from `start` to `end` between the ends of a chart. */
  function bar(start, end, scale, marks) {
    const svg = drawn("svg", { class: "bar", width: "100%", height: "22", "aria-hidden": "true" });
    for (const mark of marks) {
      svg.append(drawn("line", { x1: scale(mark) + "%", x2: scale(mark) + "%", y1: 0, y2: 22, class: "mark" }));
    }
    const low = scale(Math.min(start, end));
    const wide = Math.max(scale(Math.max(start, end)) - low, 0.2);
    const kind = end < start ? "down" : "up";
    svg.append(drawn("rect", { x: low + "%", y: 3, width: wide + "%", height: 16, class: kind }));
    return svg;
  }

  /* The probability of a prediction, by what the page knows of its scale; null where it has none. */
  function chanceOf(each, all) {
    const kind = opened.parts[each.part].part.probability;
    if (!kind) return null;
    if (kind === "probability") return each.prediction;
    if (kind === "logistic") return 1 / (1 + Math.exp(-each.prediction));
    const scores = all.filter((other) => other.model === each.model).map((other) => other.prediction);
    const top = Math.max(...scores);
    return Math.exp(each.prediction - top) / scores.reduce((sum, score) => sum + Math.exp(score - top), 0);
  }

  function sentenceOf(each, before) {
    const digits = decimals([each.prediction, each.base]);
    const change = each.prediction - before.prediction;
    const chances = [chanceOf(each, found), chanceOf(before, rowFound)];
    const numberOfBoth = [each, before].map((one, i) => {
      const number = fixed(one.prediction, digits);
      if (chances[i] === null) return number;
      return opened.parts[each.part].part.probability === "probability" ? percent(chances[i]) : percent(chances[i]) + " (" + number + ")";
    });
    const names = [models.length > 1 ? each.model.explanation : "", opened.output === null && each.model.outputs.length > 1 ? each.output : ""];
    const name = names.filter(Boolean).join(", ");
    const said = (name ? name + ": prediction " : "Prediction ") + numberOfBoth[0];
    if (fixed(change, digits) === fixed(0, digits)) return said + ", as in the row.";
    const moved = chances[0] === null ? fixed(change, digits, true) + " " : "";
    return said + ", " + moved + "against " + numberOfBoth[1] + " in the row.";
  }

  function figureOf(each, before) {
    const order = [...each.phi.keys()].sort((a, b) => Math.abs(each.phi[b]) - Math.abs(each.phi[a]));
    const steps = order.slice(0, MOST).map((i) => ({ name: nameOf(each, i), phi: each.phi[i] }));
    const others = order.slice(MOST);
    if (others.length) steps.push({ name: others.length + " others", phi: others.reduce((sum, i) => sum + each.phi[i], 0) });
    let at = each.base;
    for (const step of [...steps].reverse()) {
      step.start = at;
      at += step.phi;
      step.end = at;
    }
    const ends = [each.base, each.prediction, ...steps.flatMap((step) => [step.start, step.end])];
    const low = Math.min(...ends);
    const span = Math.max(...ends) - low || 1;
    const scale = (value) => Number((2 + (96 * (value - low)) / span).toFixed(2));
    const digits = decimals([...each.phi]);
    const sentence = sentenceOf(each, before);
    const chart = element("div", { class: "chart", role: "img", "aria-label": sentence });
    for (const step of steps) {
      const line = element("div", { class: "line" });
      line.append(
        element("span", { class: "name" }, step.name),
        bar(step.start, step.end, scale, [each.base, each.prediction]),
        element("span", { class: "number" }, fixed(step.phi, digits, true)),
      );
      chart.append(line);
    }
    chart.append(axisOf(each, decimals([each.base, each.prediction]), scale));
    return element("figure", { class: "waterfall" }, element("figcaption", {}, sentence), chart, tableOf(each, before, order, digits));
  }

  /* The base value and the prediction below the bars, at their marks. */
  function axisOf(each, digits, scale) {
    const svg = drawn("svg", { class: "axis", width: "100%", height: "34", "aria-hidden": "true" });
    const isLeft = each.base < each.prediction;
    for (const [name, value, y, left] of [["base value ", each.base, 14, isLeft], ["prediction ", each.prediction, 30, !isLeft]]) {
      const text = drawn("text", { x: scale(value) + "%", y, "text-anchor": left ? "start" : "end" });
      text.textContent = name + fixed(value, digits);
      svg.append(text);
    }
    return element("div", { class: "line" }, element("span"), svg, element("span"));
  }

  function tableOf(each, before, order, digits) {
    const heads = ["feature", "in the row", "now"].map((head) => element("th", { scope: "col" }, head));
    const wide = decimals([each.base, each.prediction]);
    const lines = order.map((i) => [nameOf(each, i), fixed(before.phi[i], digits, true), fixed(each.phi[i], digits, true)]);
    lines.push(["base value", fixed(before.base, wide), fixed(each.base, wide)]);
    lines.push(["prediction", fixed(before.prediction, wide), fixed(each.prediction, wide)]);
    const body = lines.map(([name, ...cells]) =>
      element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell))),
    );
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
    const kept = figures.querySelector("details[open]") ? { open: "" } : {};
    const name = "attributions in the row and now, " + each.model.explanation + " " + each.output;
    return element(
      "details",
      kept,
      element("summary", {}, "The numbers as a table"),
      element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name }, table),
    );
  }

  function show() {
    now.textContent = sentences();
    figures.replaceChildren(...found.map((each, i) => (isShown(each) ? figureOf(each, rowFound[i]) : "")));
  }

  function sentences() {
    return found.map((each, i) => (isShown(each) ? sentenceOf(each, rowFound[i]) : "")).filter(Boolean).join(" ");
  }

  function draw() {
    drawing = 0;
    found = computed();
    show();
    clearTimeout(speaking);
    speaking = setTimeout(() => (said.textContent = sentences()), QUIET_MS);
  }

  function changed(place, value) {
    values[place] = value;
    if (!drawing) drawing = requestAnimationFrame(draw);
  }

  /* The controls of a column, and how they take a value. */
  function controlOf(place) {
    const column = data.columns[place];
    const name = column.player ? column.name + " (" + column.player + ")" : column.name;
    const id = "what-if-" + place;
    const makers = { category: chosenFrom, boolean: yesOrNo, number: slid };
    const made = makers[column.kind](place, column, name, id);
    const row = element("div", { class: "what-if-column of-" + column.kind }, element("label", { for: id }, name), ...made.parts);
    if (column.about) {
      made.parts[0].setAttribute("aria-describedby", id + "-about");
      row.append(element("small", { id: id + "-about", class: "soft" }, column.about));
    }
    return { ...made, row };
  }

  function chosenFrom(place, column, name, id) {
    const select = element("select", { id }, ...column.texts.map((text, code) => element("option", { value: code }, text)));
    const none = element("option", { value: "" }, "missing");
    select.addEventListener("change", () => changed(place, select.value === "" ? NaN : Number(select.value)));
    return {
      parts: [select],
      take(value) {
        if (takesMissing || Number.isNaN(value)) select.append(none);
        else none.remove();
        select.value = Number.isNaN(value) ? "" : String(value);
      },
    };
  }

  function yesOrNo(place, column, name, id) {
    const box = element("input", { id, type: "checkbox" });
    const gap = missingBox(place, name, () => Number(box.checked), [box]);
    box.addEventListener("change", () => changed(place, Number(box.checked)));
    return {
      parts: [box, gap.label],
      take(value) {
        box.checked = value === 1;
        gap.take(value);
      },
    };
  }

  function slid(place, column, name, id) {
    const { low, high, step } = column;
    const range = element("input", { id, type: "range", min: low, max: high, step });
    const exact = element("input", { type: "number", step: "any", "aria-label": name + ", as a number" });
    const show = (value) => {
      range.value = value;
      range.setAttribute("aria-valuetext", written(column, value));
    };
    const moved = () => {
      const value = Number(range.value);
      show(value);
      exact.value = value;
      return value;
    };
    const gap = missingBox(place, name, moved, [range, exact]);
    range.addEventListener("input", () => changed(place, moved()));
    exact.addEventListener("input", () => {
      if (!exact.value || !Number.isFinite(Number(exact.value))) return;
      show(Number(exact.value));
      changed(place, Number(exact.value));
    });
    return {
      parts: [range, exact, gap.label],
      take(value) {
        show(Number.isNaN(value) ? low : value);
        exact.value = Number.isNaN(value) ? "" : Number(value.toPrecision(DIGITS));
        gap.take(value);
      },
    };
  }

  /* A box that makes a value missing, where the model or the row has missing values. */
  function missingBox(place, name, valueOf, inputs) {
    const box = element("input", { type: "checkbox", "aria-label": name + " is missing" });
    const label = element("label", { class: "gap" }, box, "missing");
    const enable = () => inputs.forEach((each) => (each.disabled = box.checked));
    box.addEventListener("change", () => {
      enable();
      changed(place, box.checked ? NaN : valueOf());
    });
    return {
      label,
      take(value) {
        label.hidden = !(takesMissing || Number.isNaN(value));
        box.checked = Number.isNaN(value);
        enable();
      },
    };
  }

  const controls = data.order.map(controlOf);
  const note = element("p", { class: "what-if-note" });
  const back = element("button", { type: "button" }, "Back to the values of the row");
  const said = element("p", { role: "status", class: "heard" });
  const figures = element("div");
  const now = element("p", { class: "what-if-now" });
  const form = element("form", { class: "what-if", "aria-label": "values of the row" }, ...controls.map((each) => each.row), back);
  panel.append(note, now, form, said, figures);
  if (data.without.length) {
    const names = data.without.join(", ");
    form.after(element("p", { class: "soft" }, "Without a control, as the model does not read it, or it never varies: " + names + "."));
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  back.addEventListener("click", () => {
    values = [...own];
    data.order.forEach((place, i) => controls[i].take(values[place]));
    draw();
  });

  function tell(text, isFault) {
    note.className = isFault ? "missing" : "soft";
    note.textContent = text;
    if (isFault) note.setAttribute("role", "alert");
    else note.removeAttribute("role");
  }

  function open(detail) {
    clearTimeout(speaking);
    said.textContent = "";
    const isSame = opened !== null && detail !== null && String(opened.key) === String(detail.key) && rowFound.length > 0;
    opened = detail;
    const place = detail === null ? undefined : places.get(JSON.stringify(detail.key));
    const isThere = place !== undefined && models.every((model) => model.parts.every((part) => detail.parts[part].prediction !== null));
    panel.hidden = detail === null;
    form.hidden = figures.hidden = now.hidden = !isThere;
    if (isSame && isThere) return show(); // another output of the row: its changed values stay
    rowFound = [];
    if (detail === null) return;
    if (!isThere) {
      tell("The exact values of this row are not on the page: " + data.keys.length.toLocaleString("en") + " other rows can be changed.");
      return;
    }
    own = stored.map((column) => column[place]);
    values = [...own];
    data.order.forEach((column, i) => controls[i].take(values[column]));
    found = rowFound = computed();
    const fault = found.map(faultOf).find(Boolean);
    if (fault) tell("The script gives other numbers than the cube for this row (" + fault + "): do not rely on its what-if.", true);
    else tell("Recomputed by this page, the row has the prediction and attributions of the cube.  Change its values:");
    show();
  }

  document.addEventListener("dshap:row", (event) => open(event.detail));
  window.dshapWhatIf = { models, columns: stored, keys: data.keys };
})();
