// Renews the report once a second while somebody looks and something has changed; says when the run has ended.
(() => {
  const status = document.getElementById("status");
  const ended = document.getElementById("ended");
  const viewer = Math.random().toString(36).slice(2);
  const EVERY = 1000; // ms
  const MISSES = 3; // unanswered questions in a row, after which the run is taken to have ended
  let shown = null, at = null, missed = 0;

  // What a reader has opened, scrolled and is on stays as it is.
  function renew(html) {
    const open = [...document.querySelectorAll("details[id]")].map((each) => [each.id, each.open]);
    const across = [...document.querySelectorAll(".wide")].map((each) => each.scrollLeft);
    const focus = document.activeElement?.closest("details[id]")?.id;
    const y = window.scrollY;
    document.getElementById("report").outerHTML = html;
    for (const [id, was] of open) {
      const each = document.getElementById(id);
      if (each) each.open = was;
    }
    document.querySelectorAll(".wide").forEach((each, i) => { each.scrollLeft = across[i] ?? 0; });
    if (focus) document.getElementById(focus)?.querySelector("summary")?.focus({ preventScroll: true });
    window.scrollTo({ top: y, behavior: "instant" });
  }

  async function report() {
    const known = shown === null ? {} : { "If-None-Match": shown };
    const answer = await fetch(`report?viewer=${viewer}`, { headers: known });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(await answer.text());
    renew(await answer.text());
    shown = answer.headers.get("ETag");
    at = new Date();
  }

  async function look() {
    try {
      const state = await (await fetch(`state?viewer=${viewer}`)).json();
      status.textContent = state.over ? "" : state.status;
      const version = `"${state.version}"`;
      if (version !== shown && (!document.hidden || state.over)) await report();
      missed = 0;
      if (state.over && version === shown) {
        ended.textContent = `${state.status} This page stays as it is.`;
        return;
      }
    } catch (error) {
      if (++missed >= MISSES) {
        const when = at ? ` What is shown is from ${at.toLocaleTimeString()}.` : "";
        status.textContent = "";
        ended.textContent = `The run does not answer any more: it has ended, or was stopped.${when}`;
        return;
      }
    }
    setTimeout(look, EVERY);
  }

  document.addEventListener("visibilitychange", () => { missed = 0; });
  look();
})();
