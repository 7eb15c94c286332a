// Puts the parts together.

const SCHEMES = ["auto", "light", "dark"];
const darkPreferred = matchMedia("(prefers-color-scheme: dark)");

/** The scheme of the system, until the button says otherwise. */
function schemes() {
  const button = document.getElementById("theme");
  let scheme = "auto";
  const apply = () => {
    const shown = scheme === "auto" ? (darkPreferred.matches ? "dark" : "light") : scheme;
    document.documentElement.dataset.theme = shown;
    document.documentElement.style.colorScheme = shown;
    button.textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[scheme];
    button.setAttribute("aria-label", `Colour scheme: ${scheme}`);
    tell("theme");
  };
  button.addEventListener("click", () => {
    scheme = SCHEMES[(SCHEMES.indexOf(scheme) + 1) % SCHEMES.length];
    apply();
  });
  darkPreferred.addEventListener("change", apply);
  apply();
}

/** Marks the part of the report that is being read, and keeps its link in sight. */
function followAlong(parts, links) {
  const nav = document.getElementById("nav");
  const seen = new Map();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) seen.set(entry.target, entry.isIntersecting);
    const at = parts.findIndex((part) => seen.get(part));
    links.forEach((link, i) => {
      if (i === at) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    if (at < 0) return;
    const link = links[at];
    if (link.offsetLeft < nav.scrollLeft || link.offsetLeft + link.offsetWidth > nav.scrollLeft + nav.clientWidth) nav.scrollLeft = link.offsetLeft - nav.clientWidth / 3;
  }, { rootMargin: "-15% 0px -70% 0px" });
  parts.forEach((part) => observer.observe(part));
}

function start() {
  schemes();
  const graph = graphCard();
  const pieces = data.objective.name === "pipeline" ? stagesCard() : data.objective.name === "stream" ? runsCard() : null;
  const routes = data.routes ? routesCard() : null;
  const parts = [verdictCard(), pieces, timelineCard(), routes, qualityCard(), graph.card, loadsCard(), historyCard(), aboutCard()].filter(Boolean);
  document.getElementById("main").append(...parts);
  const why = opCard(graph.reveal);
  document.getElementById("side").append(why);
  const links = [...parts, why].map((part) => make("a", { href: `#${part.id}` }, part.dataset.short ?? part.dataset.title));
  document.getElementById("nav").append(...links);
  followAlong([...parts, why], links);
  document.getElementById("foot").append(`Made by divvy ${data.version}. This file needs nothing else and asks the network for nothing.`);
  graph.start();
  tell("theme");
  // Ready is when what was made has been painted.
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("ready");
    document.documentElement.dataset.ready = "true";
  }));
}

start();
