// Keys and local times. Everything else works without this file.
(() => {
  "use strict";

  // Times: as long ago as they are, in the reader's own words; the exact one is in the title.
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  function ago(seconds) {
    for (const [unit, word] of units) if (seconds >= unit) return Math.floor(seconds / unit) + " " + word;
    return Math.max(0, Math.floor(seconds)) + " s";
  }
  function times() {
    const now = Date.now();
    for (const node of document.querySelectorAll("time[datetime]")) {
      const at = Date.parse(node.dateTime);
      if (Number.isNaN(at)) continue;
      node.title = new Date(at).toLocaleString();
      if (node.dataset.show === "ago") node.textContent = ago((now - at) / 1000) + " ago";
      else if (node.dataset.show === "left") node.textContent = at > now ? "in " + ago((at - now) / 1000) : "now";
      else if (node.dataset.show === "clock") node.textContent = new Date(at).toLocaleTimeString([], { hour12: false });
    }
  }
  times();
  setInterval(times, 15000);
  document.addEventListener("htmx:after:swap", times);

  // Keys: j and k go through a list; o, r, a, n answer the request that is shown, or open the one that is chosen.
  const answers = { o: "once", r: "run", a: "always", n: "no", l: "later" };
  function typing(target) {
    return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
  }
  function step(by) {
    const items = [...document.querySelectorAll("[data-item]")];
    if (!items.length) return;
    const at = items.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + by));
    items[next].focus();
    items[next].scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (!search) return;
      search.focus();
    } else if (answers[event.key]) {
      const button = document.querySelector('button[name="answer"][value="' + answers[event.key] + '"]');
      const chosen = document.activeElement;
      if (button && !button.disabled) button.click();
      else if (chosen && chosen.dataset && chosen.dataset.item !== undefined && chosen.href) location.assign(chosen.href + "#" + answers[event.key]);
      else return;
    } else return;
    event.preventDefault();
  });

  // A request that was opened by a key has that answer under the cursor; nothing is answered before it is shown.
  const wanted = location.hash.slice(1);
  if (wanted) {
    const button = document.querySelector('button[name="answer"][value="' + CSS.escape(wanted) + '"]');
    if (button) button.focus();
  }
  // One press is one answer.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    setTimeout(() => { for (const button of event.target.querySelectorAll("button")) button.disabled = true; });
  });
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
