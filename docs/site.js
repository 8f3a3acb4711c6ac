// What scrolls sideways can be scrolled by keys, too.
document$.subscribe(() => {
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0
  }
})
