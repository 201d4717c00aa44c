"""Charts as SVG text for pages: no library, colours and fonts from the page's style sheet, so that
they follow its dark mode. Curves have classes c0, c1, ... and d0, d1, ... (dashes)."""
import html
import json
import math

import numpy as np

WIDTH, HEIGHT = 480, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 10, 40
MOST_POINTS = 400
COLOURS = 7


def nice_step(span, most):
    """The smallest of 1, 2, 5 x 10^k that divides `span` into at most `most` parts."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def linear_ticks(low, high, most=5):
    step = nice_step(high - low, most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [step * k for k in range(first, last + 1)]


def log_ticks(low, high):
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high < 1000 * low else (1,)
    ticks = [f * 10.0 ** p for p in powers for f in factors if low <= f * 10.0 ** p <= high]
    return ticks[::-(-len(ticks) // 6) or 1]


def number(value):
    """A tick or a value as a person writes it."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    for scale, smallest, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e3, 1e4, "k")):
        if smallest <= abs(value) < 1e12:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e12 else f"{value:.3g}"


def thin(x, *columns):
    """At most MOST_POINTS of a long curve, evenly spaced; the last one stays."""
    if len(x) <= MOST_POINTS:
        return x, *columns
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(int))
    return x[kept], *(column[kept] for column in columns)


class Axis:
    """From numbers to pixels."""

    def __init__(self, values, pixels, log=False, zero=False, pad=0.04):
        seen = np.concatenate([np.ravel(v) for v in values]) if values else np.zeros(1)
        seen = seen[np.isfinite(seen) & ((seen > 0) if log else True)]
        self.log = log and seen.size > 0
        low, high = (seen.min(), seen.max()) if seen.size else (0.0, 1.0)
        if self.log:
            low, high = math.log10(low), math.log10(high)
        if zero and not self.log:
            low, high = min(low, 0.0), max(high, 0.0)
        if high - low < 1e-12 * max(abs(high), 1e-12):
            low, high = (low - 0.5, high + 0.5) if self.log else (low - abs(low) / 2, high + (
                abs(high) / 2 or 1))
        margin = pad * (high - low)
        self.low = low if zero and low == 0 else low - margin
        self.high = high + margin
        self.start, self.end = pixels

    def __call__(self, values):
        values = np.asarray(values, float)
        if self.log:
            values = np.log10(np.where(values > 0, values, np.nan))
        return self.start + (values - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most=5):
        if self.log:
            ticks = log_ticks(10 ** self.low, 10 ** self.high)
            return ticks if len(ticks) > 1 else linear_ticks(10 ** self.low, 10 ** self.high)
        return linear_ticks(self.low, self.high, most)


def path(xs, ys):
    """A polyline, broken where a value is missing."""
    parts, pen_up = [], True
    for x, y in zip(xs, ys):
        if not (math.isfinite(x) and math.isfinite(y)):
            pen_up = True
            continue
        parts.append(f"{'M' if pen_up else 'L'}{x:.1f} {y:.1f}")
        pen_up = False
    return "".join(parts)


class Chart:
    """One chart: add what it shows, then ask for its SVG. x and y are numpy arrays."""

    def __init__(self, title, x_label, y_label, log_x=False, log_y=False, zero_y=False):
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.log_x, self.log_y, self.zero_y = log_x, log_y, zero_y
        self.layers = []   # functions of both axes that return SVG, drawn in order
        self.extent = ([], [])
        self.legend = []   # (classes, label)
        self.curves = []   # what the pointer shows: label, classes, x, y

    def empty(self):
        return not self.layers

    def _see(self, x, *ys):
        self.extent[0].append(np.asarray(x, float))
        self.extent[1].extend(np.asarray(y, float) for y in ys)

    def line(self, x, y, label=None, style="c0 d0", steps=False):
        x, y = (x, y) if steps else thin(np.asarray(x, float), np.asarray(y, float))
        self._see(x, y)

        def draw(axis_x, axis_y):
            xs, ys = axis_x(x), axis_y(y)
            if steps:
                xs, ys = np.repeat(xs, 2)[1:], np.repeat(ys, 2)[:-1]
            dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.2"/>' for a, b in zip(xs, ys)
                           if np.isfinite(a) and np.isfinite(b)) if len(x) <= 30 else ""
            return f'<g class="line {style}"><path d="{path(xs, ys)}"/>{dots}</g>'

        self.layers.append(draw)
        if label:
            self.legend.append((f"line {style}", label))
            self.curves.append((label, style, x, y))

    def band(self, x, low, high, label=None, style="c0", faint=False):
        x, low, high = thin(*(np.asarray(v, float) for v in (x, low, high)))
        self._see(x, low, high)
        classes = f"band {style}{' faint' if faint else ''}"

        def draw(axis_x, axis_y):
            xs = np.concatenate([axis_x(x), axis_x(x)[::-1]])
            ys = np.concatenate([axis_y(high), axis_y(low)[::-1]])
            return f'<path class="{classes}" d="{path(xs, ys)}Z"/>'

        self.layers.append(draw)
        if label:
            self.legend.append((classes, label))

    def dots(self, x, y, names):
        self._see(x, y)

        def draw(axis_x, axis_y):
            return '<g class="dots c0">' + "".join(
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.4"><title>{html.escape(name)}</title>'
                '</circle>' for a, b, name in zip(axis_x(x), axis_y(y), names)
                if np.isfinite(a) and np.isfinite(b)) + "</g>"

        self.layers.append(draw)

    def mark(self, label, x=None, y=None, style="c1"):
        """A dashed line across the chart at one x or one y."""
        self._see(*(([x], []) if y is None else ([], [y])))

        def draw(axis_x, axis_y):
            if y is None:
                at = axis_x([x])[0]
                ends = f"M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"
            else:
                at = axis_y([y])[0]
                ends = f"M{LEFT} {at:.1f}H{WIDTH - RIGHT}"
            return f'<path class="mark {style}" d="{ends}"/>'

        self.layers.append(draw)
        self.legend.append((f"mark {style}", label))

    def svg(self):
        axis_x = Axis(self.extent[0], (LEFT, WIDTH - RIGHT), self.log_x, pad=0.02)
        axis_y = Axis(self.extent[1], (HEIGHT - BOTTOM, TOP), self.log_y, self.zero_y)
        body = [self._grid(axis_x, axis_y), *(draw(axis_x, axis_y) for draw in self.layers)]
        return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label='
                f'"{html.escape(self.title)}"{self._pointer_data(axis_x)}>{"".join(body)}'
                f'<path class="pointer" d="M0 {TOP}V{HEIGHT - BOTTOM}"/></svg>')

    def _pointer_data(self, axis_x):
        """For the page's script: x in pixels and the values of each curve there."""
        curves = []
        for label, style, x, y in self.curves[:12]:
            x, y = np.asarray(x, float), np.asarray(y, float)
            pixels = axis_x(x)
            known = np.isfinite(pixels) & np.isfinite(y)
            curves.append({"label": label, "style": style,
                           "x": [round(float(v), 1) for v in pixels[known]],
                           "at": [number(v) for v in x[known]], "y": [number(v) for v in y[known]]})
        if not any(curve["x"] for curve in curves):
            return ""
        text = json.dumps({"axis": self.x_label, "curves": curves}, separators=(",", ":"))
        return f' data-curves="{html.escape(text)}"'

    def _grid(self, axis_x, axis_y):
        bottom = HEIGHT - BOTTOM
        parts = []
        for value in axis_y.ticks():
            y = axis_y([value])[0]
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
                         f'<text class="tick end" x="{LEFT - 7}" y="{y + 4:.1f}">{number(value)}'
                         '</text>')
        for value in axis_x.ticks(6):
            x = axis_x([value])[0]
            parts.append(f'<text class="tick middle" x="{x:.1f}" y="{bottom + 17}">{number(value)}'
                         '</text>')
        parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>'
                     f'<text class="label middle" x="{(LEFT + WIDTH - RIGHT) / 2}" '
                     f'y="{HEIGHT - 5}">{html.escape(self.x_label)}</text>'
                     f'<text class="label middle" transform="translate(13 {(TOP + bottom) / 2}) '
                     f'rotate(-90)">{html.escape(self.y_label)}</text>')
        return "".join(parts)


def style_of(index):
    """Classes of the curve of run or client number `index`."""
    return f"c{index % COLOURS} d{index // COLOURS % 4}"


def bars(title, names, parts, unit):
    """Stacked horizontal bars as HTML: `parts` is a list of (label, classes, [a value a name])."""
    totals = np.sum([values for *_, values in parts], axis=0)
    rows = []
    for i, name in enumerate(names):
        cells = "".join(
            f'<i class="{classes}" style="width:{100 * values[i] / max(totals.max(), 1e-30):.2f}%" '
            f'title="{html.escape(label)}: {number(values[i])} {unit}"></i>'
            for label, classes, values in parts)
        rows.append(f'<tr><th>{html.escape(name)}</th><td class="bar">{cells}</td>'
                    f'<td class="number">{number(totals[i])} {unit}</td></tr>')
    return (f'<table class="bars" aria-label="{html.escape(title)}">{"".join(rows)}</table>')
