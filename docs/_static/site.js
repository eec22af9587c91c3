// A link into a folded part opens it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", unfold);
window.addEventListener("DOMContentLoaded", unfold);
