/* Below each dependence: the rows that the column moved most, under each explanation, made when they are opened. */
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

  function listOf(part, feature, heading) {
    const places = (data.largest[part] || {})[feature] || [];
    const rows = places.map((place) => cells(data.rows[place], part, feature));
    if (!rows.length) return element("p", {}, "This page has none of these rows.");
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
    const name = "rows that " + data.features[feature] + " moved most" + (heading ? " under " + heading : "");
    return element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": name }, table);
  }

  for (const details of document.querySelectorAll("details.largest")) {
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const parts = data.parts.filter((each) => each.tab === Number(details.dataset.tab));
      for (const part of parts) {
        const heading = parts.length > 1 ? part.name : "";
        if (heading) details.append(element("h4", {}, heading));
        details.append(listOf(data.parts.indexOf(part), Number(details.dataset.feature), heading));
      }
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
