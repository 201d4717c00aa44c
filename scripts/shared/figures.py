"""How the project's pictures look, and how they become files; shared by scripts/plot,
scripts/report and scripts/bench-scaling."""
import io
import re
import textwrap

import matplotlib
import matplotlib.pyplot as plt
from hanse.files import replacing, write_whole
from matplotlib.font_manager import FontProperties

matplotlib.use("Agg")  # pictures go to files; nothing needs a screen

# Okabe and Ito's colours: told apart by colour-blind readers too, and in print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#404040"]
DASHES = ["-", "--", "-.", ":"]
# How many of the colours lines take before they take them again with dashes; "dashed": dashes tell
# every line from the next one, in print without colours, too.
LINES = {"colours": len(COLOURS), "dashed": False}
GREY, LIGHT_GREY, TEXT = "#5A5A5A", "#C4C4C4", "#1F2328"
PHASE_COLOURS = ["#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442",
                 "#B8B8B8"]
# What stands in a dark page in the place of a colour.
DARK = {"#0072B2": "#58A9DD", "#D55E00": "#F08A4B", "#009E73": "#3CC79A", "#CC79A7": "#DC93C3",
        "#E69F00": "#E6B450", "#56B4E9": "#8CCBF2", "#404040": "#C9CDD1", "#B8B8B8": "#6B737B",
        GREY: "#98A1AA", LIGHT_GREY: "#4A5159", TEXT: "#DFE3E7", "#B0B0B0": "#565E66",
        "#E6E6E6": "#30363C", "#FFFFFF": "#1B1F23"}
STYLE = {
    "font.size": 11, "axes.titlesize": 12, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.labelcolor": GREY, "axes.edgecolor": "#B0B0B0", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8, "xtick.color": GREY, "ytick.color": GREY, "lines.linewidth": 1.8,
    "lines.markersize": 3.5, "axes.formatter.useoffset": False,
    "legend.frameon": False, "legend.fontsize": 10, "figure.dpi": 100, "savefig.dpi": 120,
    "text.color": TEXT, "pdf.fonttype": 42, "svg.fonttype": "none", "image.composite_image": False,
}


def line_style(index):
    turn = index if LINES["dashed"] else index // LINES["colours"]
    return {"color": COLOURS[index % LINES["colours"]], "linestyle": DASHES[turn % len(DASHES)]}


def use_colours(colours):
    """Lines have these colours, #RRGGBB, from now on."""
    LINES["colours"] = len(colours)
    COLOURS[:] = (list(colours) * len(COLOURS))[:max(len(COLOURS), len(colours))]


def marker_of(points):
    """Few points are shown as such; many only make a line look dirty."""
    return {"marker": "o", "markersize": plt.rcParams["lines.markersize"]} \
        if len(points) <= 40 else {}


def new_figure(panels, width=5.4, height=4.2):
    figure, axes = plt.subplots(1, panels, figsize=(width * panels, height), squeeze=False,
                                layout="constrained")
    figure.get_layout_engine().set(w_pad=0.14, h_pad=0.08)
    return figure, list(axes[0])


def upper_first(text):
    return text[:1].upper() + text[1:]


def shorten(label, length):
    """Without its middle where it is longer."""
    half = (length - 1) // 2
    return label if len(label) <= length else f"{label[:half]}…{label[-half:]}"


def legend_below(figure, axes, title=None, columns=4):
    """One legend for the whole picture, under it, so that it never covers data."""
    entries = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    if not entries and not title:
        return
    # As many columns as the longest label leaves room for: about 13 letters of 10 pt an inch.
    size = FontProperties(size=plt.rcParams["legend.fontsize"]).get_size_in_points() / 10
    letters = figure.get_figwidth() * 13 / size
    title = title and title_within(figure, title, int(letters))
    longest = max(map(len, entries), default=0)
    columns = max(1, min(columns, int(letters / (min(longest, letters - 6) + 6)), len(entries)))
    columns = legend_within(figure, entries, title, columns, int(letters) - 6)
    rows = -(-len(entries) // columns) + (title.count("\n") + 1 if title else 0)
    # Many entries make the picture higher instead of its charts lower.
    line = 0.24 * size
    figure.set_figheight(figure.get_figheight() + line * max(0, rows - 2))
    share = (line / 2 + line * rows) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))


def title_within(figure, title, letters):
    """A legend's title in lines of at most so many letters, and as many as fit the figure."""
    size = plt.rcParams["legend.title_fontsize"] or plt.rcParams["font.size"]
    while True:
        text = figure.text(0, 0, textwrap.fill(title, letters), fontsize=size)
        width = text.get_window_extent(figure.canvas.get_renderer()).width
        text.remove()
        if width <= 0.96 * figure.bbox.width or letters <= 8:
            return text.get_text()
        letters = max(8, letters - 2)


def legend_within(figure, entries, title, columns, length):
    """The legend in as many columns as fit the figure, and then with labels as long as fit; returns
    how many columns it has."""
    while True:
        labels = [shorten(label, length) for label in entries]
        legend = figure.legend(entries.values(), labels, loc="lower center", ncols=columns,
                               title=title)
        over = legend.get_window_extent(figure.canvas.get_renderer()).width / figure.bbox.width
        if over <= 1 or (columns == 1 and length <= 8):
            return columns
        legend.remove()
        if columns > 1:
            columns -= 1
        else:
            length = min(length - 1, int(length / over))


def save(figure, path, dark=True):
    """As PNG, SVG or PDF, by the path's ending; the same figure makes the same bytes. SVGs follow
    the reader's dark mode where `dark` says so."""
    if path.suffix == ".svg":
        write_whole(path, svg_of(figure, path.stem, style=dark_rules() if dark else "") + "\n")
    else:
        with replacing(path) as whole:
            figure.savefig(whole, format=path.suffix[1:],
                           metadata={"CreationDate": None} if path.suffix == ".pdf" else {})


def svg_of(figure, name, style=None):
    """The figure as an element <svg>, whose ids no figure of another name has. With a `style`,
    which may be empty, it can be a file, and has this style sheet."""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(file, format="svg",
                       metadata=dict.fromkeys(["Creator", "Date", "Format", "Type"]))
    text = file.getvalue()
    text = re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg"):].strip())
    # Hundredths of a point are enough.
    text = re.sub(r'\b(?:d|x|y)="[^"]*"', lambda part: re.sub(r"(\.\d\d)\d+", r"\1", part[0]), text)
    if style is not None:
        return text.replace(">", f"><style>{style}</style>", 1) if style else text
    return re.sub(r' (?:xmlns(?::xlink)?|width|height)="[^"]*"', "", text, count=4)


def dark_rules():
    """A style sheet that gives SVGs other colours where the reader prefers a dark page."""
    rules = "".join(f'svg [style*="{what}: {light.lower()}"]{{{what}:{dark}!important}}'
                    for light, dark in DARK.items() for what in ("fill", "stroke"))
    return f"@media (prefers-color-scheme:dark){{{rules}}}"
