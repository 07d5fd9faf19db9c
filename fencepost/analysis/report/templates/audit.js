"use strict";
const suggestions = JSON.parse(document.getElementById("data").textContent);
const cards = [...document.querySelectorAll("article")];
const filters = ["kind", "type", "decision"].map((name) => document.getElementById(`by-${name}`));
const storageKey = `fencepost audit ${document.body.dataset.audit}`;
const decisions = new Map();
let current = -1;

try {
  for (const [id, accept] of JSON.parse(localStorage.getItem(storageKey) ?? "[]")) decisions.set(id, accept);
} catch { /* some browsers have no storage for local files */ }

const getDecision = (index) => ({ true: "accepted", false: "rejected" })[decisions.get(suggestions[index].id)] ?? "undecided";

function update() {
  const [kind, type, decision] = filters.map((one) => one.value);
  const counts = { accepted: 0, rejected: 0, undecided: 0 };
  let visible = 0;
  cards.forEach((card, index) => {
    const state = getDecision(index);
    counts[state] += 1;
    card.dataset.decision = state;
    for (const button of card.querySelectorAll("button")) button.ariaPressed = button.value === state;
    card.hidden = !((kind === "" || card.dataset.kind === kind)
      && (type === "" || card.dataset.types.split(" ").includes(type))
      && (decision === "" || state === decision || index === current));
    visible += !card.hidden;
  });
  document.getElementById("counts").textContent =
    `${visible} shown; ${counts.accepted} accepted, ${counts.rejected} rejected, ${counts.undecided} undecided`;
  document.getElementById("download").disabled = counts.accepted === 0;
}

function select(index) {
  cards[current]?.classList.remove("current");
  current = index;
  cards[current].classList.add("current");
  cards[current].scrollIntoView({ block: "nearest" });
}

function move(step) {
  for (let index = current + step; index >= 0 && index < cards.length; index += step) {
    if (!cards[index].hidden) return select(index);
  }
}

function decide(index, state) {
  const id = suggestions[index].id;
  if (state === "undecided") decisions.delete(id);
  else decisions.set(id, state === "accepted");
  try {
    localStorage.setItem(storageKey, JSON.stringify([...decisions]));
  } catch { /* without storage, decisions are lost when the page is closed */ }
  update();
}

function download() {
  const accepted = suggestions.filter((one) => decisions.get(one.id)).map((one) => JSON.stringify({ ...one, accept: true }) + "\n");
  if (accepted.length === 0) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(accepted, { type: "application/jsonl" }));
  link.download = "accepted.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  a: () => { if (current >= 0) { decide(current, "accepted"); move(1); } },
  r: () => { if (current >= 0) { decide(current, "rejected"); move(1); } },
  u: () => { if (current >= 0) decide(current, "undecided"); },
  d: download,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  keys[event.key]?.();
});
document.addEventListener("click", (event) => {
  const card = event.target.closest("article");
  if (card === null) return;
  select(cards.indexOf(card));
  if (event.target.tagName === "BUTTON") decide(current, event.target.value);
});
for (const one of filters) one.addEventListener("change", () => { update(); one.blur(); });
document.getElementById("download").addEventListener("click", download);
update();
move(1);
