/* Live parts: one EventSource per page. Every page works without this file.
 *
 * `event: part` carries the id of a part; that element gets a `live` event and htmx fetches it. Names travel,
 * never content, so nothing is shown that the request itself may not see.
 */
(() => {
  "use strict";
  const SILENCE = 40_000;
  const POLL = 15_000;
  const HIDDEN = 60_000;
  const body = document.body;
  const skew = Date.parse(body.dataset.now || "") - Date.now() || 0;

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
  /* What somebody opened stays open, and what somebody chose while a part was on its way stays chosen: the answer knows the choice before it. */
  let chosen = [], opened = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    opened = [...event.detail.target.querySelectorAll("details[open][id]")].map((fold) => fold.id);
    chosen = [...event.detail.target.querySelectorAll("input[id]:is([type=radio], [type=checkbox]):checked")].map((box) => box.id);
  });
  document.addEventListener("htmx:afterSwap", () => {
    opened.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    chosen.forEach((id) => {
      const box = document.getElementById(id);
      if (box && !box.disabled) box.checked = true;
    });
  });

  /* One stream, closed while the tab is hidden for long: six of them would block the site on HTTP/1.1. */
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
})();
