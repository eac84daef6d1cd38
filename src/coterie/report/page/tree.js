// The tree of clusters: a level cuts it into groups, and the map takes the groups' colours.

function tree() {
  const { merges, order } = report.tree;
  const level = $("level"), said = $("level-said"), lines = all("#tree .merge");
  const members = order.map((_, c) => [c]); // of clusters, then of merges
  merges.forEach(([a, b]) => members.push([...members[a], ...members[b]]));
  const size = (c) => report.clusters[c].size;
  // Every group has the colour of its largest cluster.
  function cut(groups) {
    const leader = order.map((_, c) => c);
    for (const part of members.slice(K, 2 * K - groups)) {
      const largest = part.reduce((best, c) => (size(c) > size(best) ? c : best));
      part.forEach((c) => (leader[c] = largest));
    }
    return leader;
  }

  function show() {
    const groups = Number(level.value), merged = K - groups; // merges that are done
    state.groups = cut(groups);
    said.textContent = String(groups);
    level.setAttribute("aria-valuetext", `${groups} groups of ${K} clusters`);
    lines.forEach((line, i) => {
      line.style.stroke = i < merged ? colourOf(members[K + i][0]) : "";
      line.classList.toggle("done", i < merged);
    });
    $("cut").setAttribute("d", `M${(merged + 0.5) / (K - 1)} 0V${K}`); // merges are drawn by their ranks
    state.by = "cluster";
    tell("colours");
  }
  level.addEventListener("input", show);

  let current = lines.length - 1; // the last merge holds all clusters
  lines.forEach((line, i) => {
    const held = new Set(members[K + i]);
    line.setAttribute("role", "button");
    line.setAttribute("tabindex", i === current ? "0" : "-1");
    line.setAttribute("aria-label", `Clusters ${[...held].map(nameOf).join(", ")}: select their rows`);
    const lightUp = () => light((row) => held.has(rows.cluster[row]));
    const pick = () => select(rowsOfCluster((c) => held.has(c)));
    line.addEventListener("pointerenter", lightUp);
    line.addEventListener("pointerleave", () => light(null));
    line.addEventListener("focus", () => line.matches(":focus-visible") && lightUp());
    line.addEventListener("blur", () => light(null));
    line.addEventListener("click", pick);
    line.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        pick();
      }
      if (!step) return;
      event.preventDefault();
      lines[current].setAttribute("tabindex", "-1");
      current = Math.min(lines.length - 1, Math.max(0, i + step));
      lines[current].setAttribute("tabindex", "0");
      lines[current].focus();
    });
  });
  all(".leaves li").forEach((leaf) => {
    const wanted = Number(leaf.dataset.cluster);
    leaf.addEventListener("click", () => select(rowsOfCluster((c) => c === wanted)));
  });
  if (Number(level.value) < K) show();
}
