/* A slider over the last runs: shares, bars and the mark on the lines follow it. */
(function () {
  "use strict";
  for (const figure of document.querySelectorAll(".history")) {
    const { runs, shares, largest } = JSON.parse(figure.querySelector("script").textContent);
    const slider = figure.querySelector("input");
    const lines = [...figure.querySelectorAll(".runs")];
    const move = () => {
      const run = Number(slider.value);
      const x = (100 * run) / (runs.length - 1) + "%";
      figure.querySelector("output").textContent = runs[run];
      slider.setAttribute("aria-valuetext", runs[run]);
      lines.forEach((line, i) => {
        const share = shares[run][i];
        line.querySelector("rect").setAttribute("width", (100 * share) / largest + "%");
        line.querySelector(".number").textContent = window.dshapPage.percent(share);
        const mark = line.querySelector(".at");
        mark.setAttribute("x1", x);
        mark.setAttribute("x2", x);
      });
    };
    slider.addEventListener("input", move);
    figure.querySelector(".slider").hidden = false;
  }
})();
