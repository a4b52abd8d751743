/* What if: controls for the values of a row, whose prediction and attributions are recomputed here. */
(function () {
  "use strict";
  const { data: page, plain, fixed, decimals, percent, probability, element, waterfall, numbersOf, opened: shownRow } = window.dshapPage;
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

  function textOf(place, value) {
    const column = data.columns[place];
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

  /* The numbers of every output of every model: [{model, part, output, prediction, base, phi, chances}]. */
  function computed() {
    return models.flatMap((model) => {
      const numbers = model.explain(Float64Array.from(model.column, numberOf));
      const bases = [];
      const predictions = [];
      model.parts.forEach((part, output) => {
        bases[part] = numbers.base[output];
        predictions[part] = numbers.prediction[output];
      });
      return model.parts.map((part, output) => ({
        model,
        part,
        output: model.outputs[output],
        prediction: numbers.prediction[output],
        base: numbers.base[output],
        phi: numbers.phi[output],
        chances: [bases, predictions].map((all) => probability(page.parts[part], all)),
      }));
    });
  }

  function isChanged() {
    return values.some((value, place) => !Object.is(value, own[place]));
  }

  /* Whether the script's numbers of a row are the stored ones, as far as the page has their digits. */
  function faultOf(each) {
    const cube = opened.parts[each.part];
    const scale = each.phi.reduce((sum, phi) => sum + Math.abs(phi), Math.abs(each.base));
    const { facts, isSingle, error } = each.model;
    const slack = scale * (1e-8 + (facts.rounding || 0) + (isSingle ? 1e-6 : 0)) + each.phi.length * error;
    if (!(Math.abs(each.prediction - cube.prediction) <= slack)) {
      return "prediction " + plain(each.prediction) + " here, " + plain(cube.prediction) + " stored";
    }
    const mine = new Map(each.model.feature.map((feature, i) => [feature, each.phi[i]]));
    for (const [feature, phi] of cube.phi) {
      if (!(Math.abs((mine.get(feature) || 0) - phi) <= slack + 6e-6 * Math.abs(phi))) {
        return data.features[feature] + " " + plain(mine.get(feature) || 0) + " here, " + plain(phi) + " stored";
      }
    }
    return "";
  }

  function isShown(each) {
    return opened.output === null || opened.output === page.parts[each.part].output;
  }

  function nameOf(each, i) {
    const { model } = each;
    const columns = model.column.filter((_, j) => model.player[j] === i);
    const name = data.features[model.feature[i]];
    return columns.length === 1 ? name + " = " + textOf(columns[0], values[columns[0]]) : name;
  }

  /* The explanation and the output of a figure, where there are several. */
  function headOf(each) {
    const output = opened.output === null && each.model.outputs.length > 1 ? each.output : "";
    return [models.length > 1 ? each.model.explanation : "", output].filter(Boolean).join(", ");
  }

  function predictionText(each, digits) {
    const number = fixed(each.prediction, digits);
    const chance = each.chances[1];
    if (chance === null) return number + page.parts[each.part].units;
    return percent(chance) + (page.parts[each.part].probability === "probability" ? "" : " (" + number + ")");
  }

  function sentenceOf(each, before) {
    const digits = decimals([each.prediction, each.base]);
    const [now, then] = [each, before].map((one) => predictionText(one, digits));
    const head = headOf(each);
    const subject = head ? head + ": the prediction" : "The prediction";
    if (!isChanged()) return subject + " of the row is " + then + ".";
    if (now === then) return subject + " stays " + now + " with the changed values.";
    const moved = each.chances[1] === null ? ": " + fixed(each.prediction - before.prediction, digits, true) : "";
    return subject + " is " + now + " with the changed values, and " + then + " in the row" + moved + ".";
  }

  function figureOf(each, before) {
    const order = [...each.phi.keys()].sort((a, b) => Math.abs(each.phi[b]) - Math.abs(each.phi[a]));
    const steps = order.slice(0, MOST).map((i) => ({ name: nameOf(each, i), phi: each.phi[i] }));
    const others = order.slice(MOST);
    if (others.length) steps.push({ name: others.length + " others", phi: others.reduce((sum, i) => sum + each.phi[i], 0) });
    const digits = decimals([...each.phi]);
    const wide = decimals([each.base, each.prediction]);
    const lines = order.map((i) => [nameOf(each, i), fixed(before.phi[i], digits, true), fixed(each.phi[i], digits, true)]);
    lines.push(["base value", fixed(before.base, wide), fixed(each.base, wide)]);
    lines.push(["prediction", fixed(before.prediction, wide), fixed(each.prediction, wide)]);
    const head = headOf(each);
    const name = "numbers in the row and with the changed values, " + each.model.explanation + " " + each.output;
    const isOpen = figures.querySelector("details[open]") !== null;
    return element("figure", { class: "waterfall" },
      element("figcaption", {}, (head ? head + ": what" : "What") + " moves the prediction with the changed values."),
      waterfall({ ...each, ends: ["rows in general ", "changed values "] }, steps),
      numbersOf(["feature", "in the row", "changed"], lines, name, isOpen));
  }

  function show() {
    const changed = isChanged();
    now.textContent = sentences();
    back.disabled = !changed;
    figures.replaceChildren(...found.map((each, i) => (changed && isShown(each) ? figureOf(each, rowFound[i]) : "")));
  }

  function sentences() {
    return found.map((each, i) => (isShown(each) ? sentenceOf(each, rowFound[i]) : "")).filter(Boolean).join(" ");
  }

  function draw() {
    drawing = 0;
    found = computed();
    show();
    hear();
  }

  /* The sentences, and remarks on values, are heard once the values rest. */
  function hear() {
    clearTimeout(speaking);
    const remarks = controls.map((each) => each.remark()).filter(Boolean);
    speaking = setTimeout(() => (said.textContent = [sentences(), ...remarks].join(" ")), QUIET_MS);
  }

  function changed(place, value) {
    values[place] = value;
    controls[data.order.indexOf(place)].tell();
    if (!drawing) drawing = requestAnimationFrame(draw);
  }

  /* Why a value is unlike all those of the rows on this page; empty where it is not. */
  function remarkOf(place) {
    const column = data.columns[place];
    const value = values[place];
    if (column.kind !== "number" || Number.isNaN(value) || Object.is(value, own[place])) return "";
    const known = stored[place].filter((each) => Number.isFinite(each));
    if (!known.length) return "";
    const low = known.reduce((least, each) => Math.min(least, each));
    const high = known.reduce((most, each) => Math.max(most, each));
    if (value < low || value > high) {
      return "The rows of this page have " + written({ ...column, unit: "" }, low) + " to " + written(column, high) + ": the model may never have seen such a value.";
    }
    if (!Number.isInteger(value) && known.every(Number.isInteger)) return "All rows of this page have whole numbers here.";
    return "";
  }

  /* The controls of a column, and how they take a value. */
  function controlOf(place) {
    const column = data.columns[place];
    const name = column.player ? column.name + " (" + column.player + ")" : column.name;
    const id = "what-if-" + place;
    const makers = { category: chosenFrom, boolean: yesOrNo, number: slid };
    const made = makers[column.kind](place, column, name, id);
    const told = element("small", { id: id + "-told", class: "told", hidden: "" });
    const row = element("div", { class: "what-if-column of-" + column.kind }, element("label", { for: id }, name), ...made.parts);
    const about = [id + "-told"];
    if (column.about) {
      about.push(id + "-about");
      row.append(element("small", { id: id + "-about", class: "soft" }, column.about));
    }
    made.parts[0].setAttribute("aria-describedby", about.join(" "));
    row.append(told);
    const remark = () => (made.isBlank && made.isBlank() ? "Type a number: the prediction still uses " + textOf(place, values[place]) + "." : remarkOf(place));
    return {
      ...made,
      row,
      remark: () => (remark() ? column.name + ": " + remark() : ""),
      tell() {
        const isOther = !Object.is(values[place], own[place]);
        const texts = [isOther ? "In the row: " + textOf(place, own[place]) + "." : "", remark()];
        told.textContent = texts.filter(Boolean).join(" ");
        told.hidden = !told.textContent;
        row.classList.toggle("changed", isOther);
      },
    };
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
    const unit = column.format && column.format.isPercent ? 100 : 1;
    const range = element("input", { id, type: "range", min: low, max: high, step });
    const exact = element("input", { type: "number", step: "any", "aria-label": name + ", as a number" });
    const show = (value) => {
      range.value = value;
      range.setAttribute("aria-valuetext", written(column, value));
    };
    const moved = () => {
      const value = Number(range.value);
      show(value);
      exact.value = Number((unit * value).toPrecision(DIGITS));
      return value;
    };
    const gap = missingBox(place, name, moved, [range, exact]);
    range.addEventListener("input", () => changed(place, moved()));
    const isBlank = () => !exact.disabled && (!exact.value || !Number.isFinite(Number(exact.value)));
    exact.addEventListener("input", () => {
      if (isBlank()) {
        controls[data.order.indexOf(place)].tell();
        return hear();
      }
      show(Number(exact.value) / unit);
      changed(place, Number(exact.value) / unit);
    });
    return {
      parts: [range, exact, gap.label],
      isBlank,
      take(value) {
        show(Number.isNaN(value) ? low : value);
        exact.value = Number.isNaN(value) ? "" : Number((unit * value).toPrecision(DIGITS));
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
    restore();
    draw();
  });

  /* Give all controls the values of the row. */
  function restore() {
    values = [...own];
    data.order.forEach((place, i) => {
      controls[i].take(values[place]);
      controls[i].tell();
    });
  }

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
    if (isSame && isThere) return drawing ? draw() : show(); // another output of the row: its changed values stay
    rowFound = [];
    if (detail === null) return;
    if (!isThere) {
      tell("This row cannot be changed, as the page does not have all of its values: " + data.keys.length.toLocaleString("en") + " other rows can.");
      return;
    }
    own = stored.map((column) => column[place]);
    restore();
    found = rowFound = computed();
    const fault = found.map(faultOf).find(Boolean);
    if (fault) tell("This page computes other numbers for this row than the stored ones (" + fault + "): do not rely on what it computes for changed values.", true);
    else tell("Change values of this row to see what the model predicts for them.  It is the answer of the model, no forecast of what a real change would do.");
    show();
  }

  document.addEventListener("dshap:row", (event) => open(event.detail));
  if (shownRow() !== null) open(shownRow());
  window.dshapWhatIf = { models, columns: stored, keys: data.keys };
})();
