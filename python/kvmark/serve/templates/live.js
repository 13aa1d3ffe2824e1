// Asks for the newest figures of a run that goes, and opens its report when it is closed.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const main = document.getElementById("content");
  const address = `/runs/${encodeURIComponent(main.dataset.run)}/live`;
  const state = document.getElementById("state");
  const now = document.getElementById("now");

  function tell(facts) {
    now.replaceChildren(...facts.map(([label, text]) => {
      const row = document.createElement("div");
      row.append(document.createElement("dt"), document.createElement("dd"));
      row.firstChild.textContent = label;
      row.lastChild.textContent = text;
      return row;
    }));
  }

  async function look() {
    if (document.visibilityState === "hidden") return true;
    let newest;
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(String(answer.status));
      newest = await answer.json();
    } catch {
      state.textContent = "The application doesn't answer any more; this is what it showed last.";
      return true;
    }
    if (!newest.goes && main.dataset.goes === "true") {
      location.reload();
      return false;
    }
    tell(newest.facts);
    newest.figures.forEach(window.kvmark.show);
    main.dataset.looks = String(1 + Number(main.dataset.looks ?? 0));
    return newest.goes;
  }

  async function follow() {
    if (await look()) setTimeout(follow, EVERY_MS);
  }

  follow();
})();
