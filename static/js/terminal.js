/* The terminal of a page: xterm.js draws it, a WebSocket carries it (portal/door/terminals.py says what goes over it). */
const box = document.getElementById("terminal");
const state = document.getElementById("terminal-state");
const button = document.getElementById("connect");
const SEEN = 64 * 1024, PIECE = 16 * 1024;

/* xterm.js makes style elements. The page's policy lets those with its nonce be. */
const nonce = document.getElementById("terminal-script").nonce;
const create = document.createElement.bind(document);
document.createElement = (name, options) => {
  const made = create(name, options);
  if (name === "style") made.nonce = nonce;
  return made;
};

const say = (words, isOver = false) => {
  state.textContent = words;
  button.hidden = !isOver;
};

const look = getComputedStyle(box);
const { Terminal, FitAddon } = await import(box.dataset.program);
const terminal = new Terminal({
  cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  fontFamily: look.fontFamily, fontSize: 13, screenReaderMode: true, scrollback: 5000, minimumContrastRatio: 4.5,
  theme: { background: look.backgroundColor, foreground: look.color, cursor: look.color },
});
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.open(box);
fit.fit();
new ResizeObserver(() => fit.fit()).observe(box);

terminal.attachCustomKeyEventHandler((event) => {
  if (!event.ctrlKey || !event.shiftKey) return true;
  if (event.type === "keydown" && event.key === "Enter") (button.hidden ? document.querySelector(".tabs [aria-current]") : button).focus();
  /* The browser's own: what is selected here goes to the clipboard, and what is pasted comes in. */
  if (event.type === "keydown" && event.code === "KeyC") navigator.clipboard?.writeText(terminal.getSelection());
  if (event.code === "KeyC") event.preventDefault();
  return !["Enter"].includes(event.key) && !["KeyC", "KeyV"].includes(event.code);
});

let socket = null, seen = 0;
const isOpen = () => socket?.readyState === WebSocket.OPEN;
const tell = (what) => isOpen() && socket.send(JSON.stringify(what));
const bytes = new TextEncoder();
const type = (data) => {
  for (let at = 0; isOpen() && at < data.length; at += PIECE) socket.send(data.slice(at, at + PIECE));
};
terminal.onData((text) => type(bytes.encode(text)));
terminal.onBinary((text) => type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
terminal.onResize(({ cols, rows }) => tell({ columns: cols, rows }));

const draw = (data) => terminal.write(data, () => {
  seen += data.length;
  if (seen < SEEN) return;
  tell({ seen });
  seen = 0;
});
const connect = ({ address, code }) => {
  socket?.close();
  const own = socket = new WebSocket(address);
  own.binaryType = "arraybuffer";
  seen = 0;
  terminal.reset();
  say("Connecting.");
  let ended = null;
  own.addEventListener("open", () => {
    const pod = Number(document.getElementById("pod")?.value || 0);
    own.send(JSON.stringify({ code, pod, columns: terminal.cols, rows: terminal.rows }));
  });
  own.addEventListener("message", ({ data }) => {
    if (own !== socket) return;
    if (typeof data === "string") { ended = JSON.parse(data); return; }
    if (state.textContent !== "Connected.") { say("Connected."); terminal.focus(); }
    draw(new Uint8Array(data));
  });
  own.addEventListener("close", () => {
    if (own !== socket) return;
    const words = !ended ? "The connection was lost." : ended.words || `The shell has ended with exit code ${ended.exit}.`;
    say(words, true);
  });
};

const arrived = () => {
  const line = document.getElementById("line");
  if (!line?.dataset.code) return;
  connect({ ...line.dataset });
  delete line.dataset.code;
};
document.addEventListener("htmx:afterSettle", arrived);
document.addEventListener("htmx:responseError", () => say("It did not connect.", true));
document.addEventListener("htmx:sendError", () => say("The portal does not answer.", true));
document.getElementById("pod")?.addEventListener("change", () => button.form.requestSubmit());
/* What came before this was here to listen. */
if (document.getElementById("problem")?.textContent.trim()) say("It did not connect.", true);
arrived();
