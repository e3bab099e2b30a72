/* The page that waits for a workload: once its button Open is there, it is pressed. Who comes back to the page wants to be here. */
(() => {
  "use strict";
  if (performance.getEntriesByType("navigation")[0]?.type === "back_forward") return;
  let pressed = false;
  const enter = () => {
    const button = document.getElementById("enter");
    if (!button || pressed) return;
    pressed = true;
    button.form.requestSubmit();
  };
  document.addEventListener("htmx:afterSettle", enter);
  enter();
})();
