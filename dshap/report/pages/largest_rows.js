/* Below each dependence: the rows that the column moved most, made when they are opened. */
(function () {
  "use strict";
  const { data, nKeys, read, fixed, decimals, percent, element, addressOf, printable } = window.dshapPage;

  function cells(row, part, feature) {
    const found = read(row);
    const each = found.parts[part];
    const phi = each.phi.find(([place]) => place === feature);
    const chance = each.chances[1];
    return {
      key: found.key,
      value: found.values.get(feature) || "",
      phi: phi ? phi[1] : NaN,
      prediction: chance === null ? each.prediction : percent(chance),
    };
  }

  function listOf(part, feature) {
    const places = (data.largest[part] || {})[feature] || [];
    const rows = places.map((place) => cells(data.rows[place], part, feature));
    if (!rows.length) return element("p", {}, "This page holds none of them.");
    const digits = decimals(rows.map((row) => row.phi));
    const wide = decimals(rows.map((row) => row.prediction));
    const heads = [data.keys.map((column) => column.name).join(", "), "value", "by", "predicted"];
    const body = rows.map((row) =>
      element("tr", {},
        element("th", { scope: "row" }, element("a", { href: addressOf(row.key) }, printable(row.key.join(", ")))),
        element("td", {}, row.value),
        element("td", {}, fixed(row.phi, digits, true)),
        element("td", {}, typeof row.prediction === "number" ? fixed(row.prediction, wide) : row.prediction)));
    const table = element("table", {},
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
      element("tbody", {}, ...body));
    return element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "rows that " + data.features[feature] + " moved most" }, table);
  }

  for (const details of document.querySelectorAll("details.largest")) {
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const part = data.parts.findIndex((each) => each.tab === Number(details.dataset.tab));
      details.append(listOf(part, Number(details.dataset.feature)));
    });
  }

  /* A card that a link leads to is opened, in whatever it is folded, with its rows. */
  function seek() {
    const card = /^#o\d+f\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!card) return;
    for (let at = card; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    card.querySelector(".largest").open = true;
    card.scrollIntoView();
  }
  window.addEventListener("hashchange", seek);
  seek();
})();
