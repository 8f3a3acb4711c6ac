"""What can be read on a figure, and whether any of it is covered."""

import weakref

_found = weakref.WeakKeyDictionary()


def texts_of(figure) -> list[tuple[str, object]]:
    """Every text that is seen on a figure, and the box it takes. Drawn once, until something is added: half a second."""
    if figure.stale or figure not in _found:
        _found[figure] = _drawn(figure)
        figure.stale = False  # looking at ticks, too, counts as a change
    return _found[figure]


def _drawn(figure) -> list[tuple[str, object]]:
    from matplotlib.text import Text

    figure.draw_without_rendering()
    renderer = figure._get_renderer()
    hidden = {id(text) for axes in figure.axes for text in _hidden(axes)}
    shown = [text for text in figure.findobj(Text) if id(text) not in hidden and text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown]


def _hidden(axes):
    """The labels of ticks outside the limits, which are made and never drawn; all labels of axes that are switched off."""
    from matplotlib.text import Text

    for axis in (axes.xaxis, axes.yaxis):
        drawn = axis._update_ticks() if axes.axison and axis.get_visible() else []
        labels = {id(label) for tick in drawn for label in (tick.label1, tick.label2)}
        yield from (text for tick in axis.majorTicks + axis.minorTicks for text in tick.findobj(Text) if id(text) not in labels)
        if not axes.axison:
            yield axis.label


def overlapping(figure) -> list[tuple[str, str]]:
    found = texts_of(figure)
    return [
        (a, b)
        for place, (a, box) in enumerate(found)
        for b, other in found[place + 1 :]
        if min(box.x1, other.x1) - max(box.x0, other.x0) > 1 and min(box.y1, other.y1) - max(box.y0, other.y0) > 1
    ]


def outside(figure) -> list[str]:
    width, height = figure.bbox.width, figure.bbox.height
    return [text for text, box in texts_of(figure) if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1]


def seen(figure) -> str:
    return "\n".join(text for text, _ in texts_of(figure))
