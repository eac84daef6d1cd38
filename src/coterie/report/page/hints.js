// Hints on cells and columns: what is too small to be written out.
function hints() {
  const hint = $("hint");
  const textFor = (target) => {
    const tip = target.closest("[data-tip]");
    if (tip) return tip.dataset.tip;
    const cell = target.closest(".heat td");
    if (!cell || !cell.textContent) return null;
    const head = cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
    return `${cell.parentElement.cells[0].textContent} × ${head.textContent}: ${cell.textContent}`;
  };
  document.addEventListener("pointerover", (event) => {
    const text = textFor(event.target);
    hint.hidden = !text;
    if (text) hint.textContent = text;
  });
  document.addEventListener("pointermove", (event) => {
    if (hint.hidden) return;
    const x = Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8);
    const y = event.clientY + 18 + hint.offsetHeight > innerHeight ? event.clientY - hint.offsetHeight - 10 : event.clientY + 18;
    hint.style.transform = `translate(${Math.max(4, x)}px, ${y}px)`;
  });
  document.addEventListener("scroll", () => (hint.hidden = true), { passive: true, capture: true });
}

// On paper nothing can be opened.
function unfold() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((part) => (part.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((part) => (part.open = false)));
}

// The section that is being read is marked in the list of sections.
function follow() {
  const links = new Map(all("nav a").map((a) => [a.hash.slice(1), a]));
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) {
        links.forEach((a, id) => a.classList.toggle("here", id === entry.target.id));
      }
    },
    { rootMargin: "-20% 0px -75% 0px" },
  );
  links.forEach((_, id) => watch.observe($(id)));
}
