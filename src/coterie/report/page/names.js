// Names that the reader gives clusters. They live in the page's address, behind the section that it points at:
// #clusters&names=%7B%220%22...

function names() {
  const built = [...state.names];
  const longest = 40;

  const [anchor] = readHash();
  if (anchor) jump(anchor);
  if (K) all(".naming, input.name").forEach((part) => (part.hidden = false));

  function readHash() {
    const [first, ...rest] = location.hash.slice(1).split("&");
    const written = rest.find((part) => part.startsWith("names="));
    if (written) take(written.slice(6));
    return [first];
  }

  function take(written) {
    let found;
    try {
      found = JSON.parse(decodeURIComponent(written));
    } catch {
      return; // an address that somebody cut off: the names stay as they are
    }
    if (!found || typeof found !== "object") return;
    state.names = built.map((name, c) => (typeof found[c] === "string" ? found[c].slice(0, longest) : name));
  }

  const given = () => Object.fromEntries(state.names.flatMap((name, c) => (name ? [[c, name]] : [])));

  function writeHash(anchor = location.hash.slice(1).split("&")[0]) {
    const changed = state.names.some((name, c) => name !== built[c]);
    const all = Object.fromEntries(state.names.map((name, c) => [c, name]).filter(([c, name]) => name || built[c]));
    const tail = changed ? `&names=${encodeURIComponent(JSON.stringify(all))}` : "";
    history.replaceState(null, "", `#${anchor}${tail}`);
  }

  function jump(id) {
    const target = $(id);
    if (!target) return;
    all(".target").forEach((part) => part.classList.remove("target"));
    target.classList.add("target");
    target.scrollIntoView();
    if (!target.hasAttribute("tabindex")) target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    event.preventDefault(); // an address that only names a section would forget the clusters' names
    const id = link.getAttribute("href").slice(1);
    writeHash(id);
    jump(id);
  });
  addEventListener("hashchange", () => {
    const [id] = readHash();
    show();
    if (id) jump(id);
  });

  function show() {
    all("[data-name]").forEach((part) => (part.textContent = nameOf(Number(part.dataset.name))));
    all("[data-given]").forEach((part) => {
      const name = state.names[Number(part.dataset.given)];
      part.textContent = name ? `: ${name}` : "";
    });
    all("input.name").forEach((input) => {
      const name = state.names[Number(input.dataset.cluster)];
      if (input.value !== name) input.value = name;
    });
    tell("names");
  }

  all("input.name").forEach((input) =>
    input.addEventListener("input", () => {
      state.names[Number(input.dataset.cluster)] = input.value.trim().slice(0, longest);
      writeHash();
      const name = input.value;
      show();
      input.value = name; // a blank that is being typed stays
    }));
  $("names-download").addEventListener("click", () =>
    download("names.json", `${JSON.stringify(given(), null, 1)}\n`, "application/json"));
  $("names-forget").addEventListener("click", () => {
    state.names = [...built];
    writeHash();
    show();
  });
  show();
}
