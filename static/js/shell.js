/* The frame of a page: theme, keys, menus, and where the focus goes after an answer. */
(() => {
  "use strict";
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

  /* One box for all of a list that can be chosen. */
  document.addEventListener("change", (event) => {
    const name = event.target.closest("[data-all]")?.dataset.all;
    for (const box of name ? event.target.form.elements : []) if (box.name === name) box.checked = event.target.checked;
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    const answer = event.detail.elt;
    const has = answer.querySelector?.(".error-summary") || answer.matches?.(".error-summary");
    if (has) document.querySelector(".error-summary")?.focus();
  });
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status < 400) document.getElementById("problem")?.replaceChildren();
  });

  theme();
  keySwitch();
})();
