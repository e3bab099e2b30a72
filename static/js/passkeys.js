/* Passkeys: what a form asks for goes to the device, the device's answer goes into the form, and the form is sent. */
(() => {
  "use strict";
  const KINDS = { create: ["clientDataJSON", "attestationObject"],
    get: ["clientDataJSON", "authenticatorData", "signature", "userHandle"] };
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const named = (list) => (list || []).map((each) => ({ ...each, id: bytes(each.id) }));
  const asked = (form) => {
    const told = JSON.parse(form.dataset.asked);
    const made = { ...told, challenge: bytes(told.challenge) };
    if (told.user) made.user = { ...told.user, id: bytes(told.user.id) };
    if (told.excludeCredentials) made.excludeCredentials = named(told.excludeCredentials);
    if (told.allowCredentials) made.allowCredentials = named(told.allowCredentials);
    return made;
  };
  const answer = (found, parts) => JSON.stringify({
    id: found.id, rawId: text(found.rawId), type: found.type, clientExtensionResults: {},
    response: Object.fromEntries(parts.filter((name) => found.response[name])
      .map((name) => [name, text(found.response[name])])),
  });
  const WORDS = {
    InvalidStateError: "This device has a passkey of yours already.",
    NotAllowedError: "It was cancelled, took too long, or this device has no passkey for it. Try again.",
    SecurityError: "Passkeys do not work at this address: open the portal by its usual name.",
  };
  const send = async (form, button, told) => {
    const kind = form.dataset.passkey;
    button.disabled = true;
    told.hidden = true;
    try {
      const found = await navigator.credentials[kind]({ publicKey: asked(form) });
      form.elements.namedItem("answer").value = answer(found, KINDS[kind]);
      form.submit();
    } catch (error) {
      told.textContent = WORDS[error.name] || "The passkey did not work. Try again, or take another way.";
      told.hidden = false;
      button.disabled = false;
    }
  };
  if (!window.PublicKeyCredential || !navigator.credentials) return;
  document.querySelectorAll("form[data-passkey]").forEach((form) => {
    const button = form.querySelector("button[type=submit]");
    const told = form.querySelector("[data-told]");
    form.querySelector("[data-missing]").hidden = true;
    button.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(form, button, told);
    });
  });
})();
