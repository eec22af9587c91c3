// A link into a folded part opens it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", unfold);
window.addEventListener("DOMContentLoaded", unfold);

// A click on a chart shows it alone, where a phone can zoom in.
window.addEventListener("DOMContentLoaded", () => {
  for (const chart of document.querySelectorAll('.bd-article img[src$=".png"]')) {
    if (chart.closest("a")) continue;
    chart.style.cursor = "zoom-in";
    chart.addEventListener("click", () => (location.href = chart.src));
  }
});
