/* What a picture says under the pointer, or where the arrow keys are. The table has the same words. */
(() => {
  "use strict";
  const read = (figure, column, line) => {
    const out = figure.querySelector(".readout");
    const heat = figure.querySelector("svg.heat");
    if (heat) {
      const names = figure.querySelectorAll(".heat-names text");
      const row = Math.max(0, Math.min(names.length - 1, line));
      const all = Number(heat.dataset.columns);
      const at = Math.max(0, Math.min(all - 1, column));
      const cell = [...heat.querySelectorAll("rect")].find((rect) => Number(rect.getAttribute("y")) === row * 20 &&
        parseFloat(rect.getAttribute("x")) + parseFloat(rect.getAttribute("width")) > (100 * (at + 0.5)) / all);
      const words = cell && figure.querySelector(`.key .${CSS.escape(cell.getAttribute("class"))}`).closest("li").textContent;
      const time = new Date(Date.parse(heat.dataset.begins) + at * heat.dataset.step * 1000).toISOString();
      out.textContent = `${names[row].textContent}, ${time.slice(8, 10)}. ${time.slice(11, 16)}: ${words}`;
      return [at, row];
    }
    const rows = document.querySelectorAll(`#${figure.dataset.readout} tbody tr`);
    if (!rows.length) return [0, 0];
    const at = Math.max(0, Math.min(rows.length - 1, column));
    const [time, ...cells] = rows[at].children;
    out.textContent = `${time.textContent}: ${cells.map((cell) => `${cell.dataset.label.toLowerCase()} ${cell.textContent}`).join(", ")}`;
    return [at, 0];
  };
  const columnsOf = (figure) => Number(figure.querySelector("svg.heat")?.dataset.columns) ||
    document.querySelectorAll(`#${figure.dataset.readout} tbody tr`).length;
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.("[data-readout] :is(svg.usage, svg.heat)");
    if (!plot) return;
    const box = plot.getBoundingClientRect();
    const figure = plot.closest("[data-readout]");
    const column = Math.floor((columnsOf(figure) * (event.clientX - box.left)) / box.width);
    figure.place = read(figure, column, Math.floor((event.clientY - box.top) / 20));
  });
  document.addEventListener("keydown", (event) => {
    const figure = event.target.closest?.("[data-readout]");
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!figure || !move || !event.target.matches(".usage-plot, .heat-scroll")) return;
    event.preventDefault();
    const [column, line] = figure.place || [columnsOf(figure), 0];
    figure.place = read(figure, column + move[0], line + move[1]);
  });
})();
