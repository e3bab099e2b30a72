/* Live parts, countdowns, theme, keys. Every page works without this file.
 *
 * Live: one EventSource per page. `event: part` carries the id of a part; that element gets a `live` event and
 * htmx fetches it. Names travel, never content, so nothing is shown that the request itself may not see.
 */
(() => {
  "use strict";
  const SILENCE = 40_000;
  const POLL = 15_000;
  const HIDDEN = 60_000;
  const body = document.body;
  const skew = Date.parse(body.dataset.now || "") - Date.now() || 0;
  const now = () => Date.now() + skew;

  /* What is told while a part is on its way may be newer than what it brings: it is fetched again. htmx's own
   * queue would be lost with the element that the answer replaces. */
  const again = new Set();
  const refresh = (id) => {
    const part = document.getElementById(id);
    if (!part || !part.hasAttribute("hx-get")) return;
    if (part.classList.contains("htmx-request")) again.add(id);
    else htmx.trigger(part, "live");
  };
  document.addEventListener("htmx:afterRequest", (event) => {
    const id = event.detail.target?.id;
    /* Not at once: the new element hears nothing before htmx has settled it (20 ms). */
    if (again.delete(id)) window.setTimeout(() => refresh(id), 100);
  });
  /* Until then it wears the classes of the element before it: what is told meanwhile looks as if on its way. */
  document.addEventListener("htmx:afterSettle", (event) => {
    const id = event.target.id;
    if (again.delete(id)) window.setTimeout(() => refresh(id));
  });
  /* A part under a pressed pointer is not replaced: the click would be lost with its button. */
  let pressed = null;
  document.addEventListener("pointerdown", (event) => { pressed = event.target; });
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => window.setTimeout(() => { pressed = null; }));
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (event.detail.elt !== part || !part.matches('[hx-trigger~="live"]') || !part.contains(pressed)) return;
    event.detail.shouldSwap = false;
    document.addEventListener("pointerup", () => window.setTimeout(() => refresh(part.id), 100), { once: true });
  });
  const refreshAll = () => document.querySelectorAll('[hx-trigger~="live"]').forEach((part) => refresh(part.id));

  /* One stream, closed while the tab is hidden for long: six of them would block the site on HTTP/1.1. */
  const live = () => {
    const address = body.dataset.live;
    if (!address) return;
    const stale = document.getElementById("stale");
    /* What happened between the server's drawing and the opening of the stream was not heard: a gap, too. */
    let source = null, heard = Date.now(), gap = true, polls = 0, hidden = 0;

    const beat = () => {
      heard = Date.now();
      if (stale) stale.hidden = true;
      window.clearInterval(polls);
      polls = 0;
      if (gap) refreshAll();
      gap = false;
    };
    const open = () => {
      if (source) return;
      source = new EventSource(address);
      source.addEventListener("beat", beat);
      source.addEventListener("part", (event) => {
        const missed = gap;
        beat();
        if (!missed) refresh(event.data.trim());
      });
      source.addEventListener("error", () => { gap = true; if (source.readyState === 2) close(); });
    };
    const close = () => { if (source) source.close(); source = null; gap = true; };
    const watch = () => {
      if (document.hidden || Date.now() - heard < SILENCE || polls) return;
      gap = true;
      if (stale) {
        stale.querySelector("time").textContent = new Date(heard + skew).toISOString().slice(11, 16);
        stale.hidden = false;
      }
      close();
      polls = window.setInterval(() => { refreshAll(); open(); }, POLL);
    };
    document.addEventListener("visibilitychange", () => {
      window.clearTimeout(hidden);
      if (document.hidden) hidden = window.setTimeout(close, HIDDEN);
      else { heard = Date.now(); open(); }
    });
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
    window.setInterval(watch, 5000);
    open();
  };

  /* Countdown: the same words and limits as the server's `countdown` (portal/pages/parts/pictures/charts.py). */
  const left = (seconds) => {
    const minutes = Math.ceil(seconds / 60);
    const hours = Math.floor(minutes / 60);
    if (minutes < 60) return `${minutes} min`;
    if (hours >= 72) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
    return minutes % 60 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${hours} h`;
  };
  const announced = new Map();
  const tick = () => document.querySelectorAll("[data-deadline]").forEach((pill) => {
    const seconds = (Date.parse(pill.dataset.deadline) - now()) / 1000;
    const minutes = Math.ceil(seconds / 60);
    pill.classList.toggle("soon", minutes <= 60 && minutes > 10);
    pill.classList.toggle("now", minutes <= 10);
    const words = pill.querySelector("[data-left]");
    const text = seconds > 0 ? `, in ${left(seconds)}` : ": stopping";
    if (words && words.textContent !== text) words.textContent = text;
    const mark = [5, 15, 60].find((limit) => minutes <= limit && minutes > 0);
    const last = announced.get(pill.dataset.deadline);
    if (mark && last !== undefined && last !== mark) say(pill.textContent.trim());
    announced.set(pill.dataset.deadline, mark || 0);
  });
  const say = (words) => { document.getElementById("announce").textContent = words; };

  /* Theme: a cookie, so that the server writes data-theme and no page flashes. */
  const theme = () => document.querySelectorAll("[data-set-theme]").forEach((button) => {
    const current = document.documentElement.dataset.theme || "";
    button.closest("[hidden]")?.removeAttribute("hidden");
    button.setAttribute("aria-pressed", String(button.dataset.setTheme === current));
    button.addEventListener("click", () => {
      const name = button.dataset.setTheme;
      const secure = location.protocol === "https:" ? ";secure" : "";
      document.cookie = `theme=${name};path=/;max-age=${name ? 31536000 : 0};samesite=lax${secure}`;
      document.documentElement.dataset.theme = name;
      document.querySelectorAll("[data-set-theme]").forEach((other) =>
        other.setAttribute("aria-pressed", String(other === button)));
    });
  });

  /* Keys: n new, g then h w t c; never while typing, with a modifier, or once switched off in the user menu. */
  let going = 0;
  const OFF = "allotment-keys-off";
  const keySwitch = () => document.querySelectorAll("[data-keys]").forEach((button) => {
    const show = () => {
      const on = !localStorage.getItem(OFF);
      button.setAttribute("aria-pressed", String(on));
      button.querySelector("[data-state]").textContent = on ? "on" : "off";
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      if (localStorage.getItem(OFF)) localStorage.removeItem(OFF); else localStorage.setItem(OFF, "1");
      show();
    });
    show();
  });
  const keys = (event) => {
    if (localStorage.getItem(OFF)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const name = Date.now() - going < 1200 ? `g ${event.key}` : event.key;
    going = event.key === "g" ? Date.now() : 0;
    const link = document.querySelector(`[data-key="${CSS.escape(name)}"]`);
    if (link) { event.preventDefault(); link.click(); }
  };

  /* A menu closes on Escape and when the focus or a click leaves it. */
  const closeMenus = (keep) => document.querySelectorAll("details.menu[open]").forEach((menu) => {
    if (!menu.contains(keep)) menu.open = false;
  });
  document.addEventListener("click", (event) => closeMenus(event.target));
  document.addEventListener("focusin", (event) => closeMenus(event.target));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return keys(event);
    const menu = document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  /* Readout: what a picture says under the pointer, or where the arrow keys are. The table has the same words. */
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

  const focusProblem = () => document.querySelector(".error-summary")?.focus();
  /* What somebody chose while a part was on its way stays chosen: the answer knows the choice before it. */
  let chosen = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    chosen = [...event.detail.target.querySelectorAll("input[type=radio]:checked")].map((radio) => radio.id);
  });
  document.addEventListener("htmx:afterSwap", () => chosen.forEach((id) => {
    const radio = document.getElementById(id);
    if (radio && !radio.disabled) radio.checked = true;
  }));
  document.addEventListener("htmx:afterSettle", (event) => {
    tick();
    if (event.detail.elt.querySelector?.(".error-summary") || event.detail.elt.matches?.(".error-summary")) focusProblem();
  });
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status < 400) document.getElementById("problem")?.replaceChildren();
  });

  theme();
  keySwitch();
  tick();
  window.setInterval(tick, 5000);
  live();
})();
