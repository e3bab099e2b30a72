/* Copy buttons: the text of what they name goes to the clipboard; where that is refused, it is selected. */
(() => {
  "use strict";
  const say = (button, text) => {
    const word = button.querySelector("[data-word]");
    const before = word.textContent;
    word.textContent = text;
    document.getElementById("announce").textContent = text;
    window.setTimeout(() => { word.textContent = before; }, 2000);
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      say(button, "Copied");
    } catch {
      /* No secure context, or not allowed. */
      if (source.select) source.select(); else window.getSelection().selectAllChildren(source);
      say(button, "Selected: copy it now");
    }
  });
})();
