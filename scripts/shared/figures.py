"""How the project's pictures look; shared by scripts/plot and scripts/bench-scaling."""
import matplotlib
import matplotlib.pyplot as plt

matplotlib.use("Agg")  # pictures go to files; nothing needs a screen

# Okabe and Ito's colours: told apart by colour-blind readers too, and in print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
DASHES = ["-", "--", "-.", ":"]
GREY = "#5A5A5A"
PHASE_COLOURS = ["#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442",
                 "#B8B8B8"]
STYLE = {
    "font.size": 11, "axes.titlesize": 12, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.labelcolor": GREY, "axes.edgecolor": "#B0B0B0", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8, "xtick.color": GREY, "ytick.color": GREY, "lines.linewidth": 1.8,
    "legend.frameon": False, "legend.fontsize": 10, "figure.dpi": 100, "savefig.dpi": 120,
}


def line_style(index):
    return {"color": COLOURS[index % len(COLOURS)],
            "linestyle": DASHES[index // len(COLOURS) % len(DASHES)]}


def marker_of(points):
    """Few points are shown as such; many only make a line look dirty."""
    return {"marker": "o", "markersize": 3.5} if len(points) <= 40 else {}


def new_figure(panels, width=5.4, height=4.2):
    figure, axes = plt.subplots(1, panels, figsize=(width * panels, height), squeeze=False,
                                layout="constrained")
    figure.get_layout_engine().set(w_pad=0.14, h_pad=0.08)
    return figure, list(axes[0])


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
    if not entries:
        return
    # As many columns as the longest label leaves room for: about 13 letters an inch.
    width = figure.get_figwidth()
    entries = {shorten(label, int(13 * width) - 6): handle for label, handle in entries.items()}
    columns = max(1, min(columns, int(13 * width / (max(map(len, entries)) + 6))))
    rows = -(-len(entries) // columns) + (title is not None)
    share = (0.12 + 0.24 * rows) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))
    figure.legend(entries.values(), entries.keys(), loc="lower center",
                  ncols=min(columns, len(entries)), title=title)
