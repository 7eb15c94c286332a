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

function start() {
  schemes();
  const graph = graphCard();
  const pieces = data.objective.name === "pipeline" ? stagesCard() : data.objective.name === "stream" ? runsCard() : null;
  const routes = data.routes ? routesCard() : null;
  const parts = [verdictCard(), pieces, timelineCard(), routes, qualityCard(), graph.card, loadsCard(), historyCard(), aboutCard()].filter(Boolean);
  document.getElementById("main").append(...parts);
  const why = opCard(graph.reveal);
  document.getElementById("side").append(why);
  document.getElementById("nav").append(...[...parts, why].map((part) => make("a", { href: `#${part.id}` }, part.dataset.title)));
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
