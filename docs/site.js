// What the theme leaves out for those who use keys or a screen reader.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0
  document.querySelectorAll(".md-code__nav").forEach((each, n) => each.setAttribute("aria-label", `Code block ${n + 1}`))
  for (const each of document.querySelectorAll(".md-typeset th:empty")) each.outerHTML = "<td></td>"
})
