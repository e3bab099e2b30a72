/* Countdowns tick by the server's clock, and are announced at 60, 15 and 5 minutes. */
(() => {
  "use strict";
  const skew = Date.parse(document.body.dataset.now || "") - Date.now() || 0;
  /* The same words and limits as the server's `countdown` (portal/pages/parts/pictures/charts.py). */
  const left = (seconds) => {
    const minutes = Math.ceil(seconds / 60);
    const hours = Math.floor(minutes / 60);
    if (minutes < 60) return `${minutes} min`;
    if (hours >= 72) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
    return minutes % 60 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${hours} h`;
  };
  const announced = new Map();
  const tick = () => document.querySelectorAll("[data-deadline]").forEach((pill) => {
    const seconds = (Date.parse(pill.dataset.deadline) - Date.now() - skew) / 1000;
    const minutes = Math.ceil(seconds / 60);
    pill.classList.toggle("soon", minutes <= 60 && minutes > 10);
    pill.classList.toggle("now", minutes <= 10);
    const words = pill.querySelector("[data-left]");
    const text = seconds > 0 ? `, in ${left(seconds)}` : ": stopping";
    if (words && words.textContent !== text) words.textContent = text;
    const mark = [5, 15, 60].find((limit) => minutes <= limit && minutes > 0);
    const last = announced.get(pill.dataset.deadline);
    if (mark && last !== undefined && last !== mark)
      document.getElementById("announce").textContent = pill.textContent.trim();
    announced.set(pill.dataset.deadline, mark || 0);
  });
  document.addEventListener("htmx:afterSettle", tick);
  tick();
  window.setInterval(tick, 5000);
})();
