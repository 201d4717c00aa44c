"""How a figure for a paper looks: its size in print, font and colours."""
import dataclasses
import textwrap

import matplotlib.pyplot as plt
from hanse.errors import Refused
from matplotlib.colors import is_color_like, to_hex
from matplotlib.font_manager import FontProperties, findfont

from .figures import COLOURS, LINES

WIDTHS = {"column": 3.3, "page": 6.8}  # inches: of one of two columns, and of the text
HIGHEST_IN = 2.7                       # of figures whose height is not given, without the legend
INK, PALE = "#000000", "#DDDDDD"
# Palettes by name. Readers who are colour-blind tell the first two apart, and print without colours
# the last.
PALETTES = {
    "okabe-ito": tuple(COLOURS),
    "tol": ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#808080"),
    "grey": ("#000000", "#777777", "#404040", "#A0A0A0"),
}


@dataclasses.dataclass
class Print:
    """Sizes are in inches, fonts in points. `height_in` None: as the width asks for."""
    width_in: float = WIDTHS["column"]
    height_in: float | None = None
    font: str = "DejaVu Sans"
    size: float = 8.0

    def use(self):
        """From now on figures look so. Raises Refused for a font that is not installed."""
        try:
            findfont(FontProperties(family=self.font), fallback_to_default=False)
        except ValueError:
            raise Refused(f"--font {self.font}: no such font is installed; hint: DejaVu Sans, "
                           "DejaVu Serif, STIXGeneral (like Times) and cmr10 (like LaTeX) come "
                           "with Matplotlib") from None
        beginning = self.font.lower()
        formulas = next((words for start, words in (("stix", "stix"), ("times", "stix"),
                                                    ("cm", "cm"), ("dejavu serif", "dejavuserif"))
                         if beginning.startswith(start)), "dejavusans")
        small = self.size - 1
        LINES["dashed"] = True
        plt.rcParams.update({
            "font.family": [self.font], "mathtext.fontset": formulas, "font.size": self.size,
            "axes.unicode_minus": formulas != "cm", "axes.formatter.use_mathtext": formulas == "cm",
            "axes.titlesize": self.size, "axes.labelsize": self.size, "xtick.labelsize": small,
            "ytick.labelsize": small, "legend.fontsize": small, "legend.title_fontsize": small,
            "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
            "ytick.color": INK, "grid.color": PALE, "grid.linewidth": 0.4, "axes.linewidth": 0.6,
            "lines.linewidth": 1.2, "lines.markersize": 2.5, "xtick.major.width": 0.6,
            "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
            "xtick.minor.size": 1.5, "ytick.minor.size": 1.5, "legend.handlelength": 2.2,
            "legend.columnspacing": 1.2, "legend.borderaxespad": 0.2, "legend.borderpad": 0.2,
            "pdf.fonttype": 42, "ps.fonttype": 42, "savefig.dpi": 300,
        })

    def lay_out(self, figure):
        """The size of the figure's axes, and labels that fit them."""
        height = self.height_in or max([min(0.66 * self.width_in, HIGHEST_IN), *(
            getattr(axis, "inches", 0) for axis in figure.axes)])
        figure.set_size_inches(self.width_in, height)
        figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03)
        letters = int(130 / self.size * height * 0.72)
        for axis in figure.axes:
            axis.set_ylabel(textwrap.fill(axis.get_ylabel(), letters))

    def make_room(self, figure, plain_in):
        """The legend stands close below axes of plain_in inches, or within the height that was
        asked for."""
        height = sum(legend.get_window_extent().height for legend in figure.legends) / figure.dpi
        figure.set_figheight(self.height_in or plain_in + height)
        share = height / figure.get_figheight()
        figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))


def inches(text):
    """Inches of "column", "page" or a number. Raises ValueError."""
    width = WIDTHS.get(text) or float(text)
    if not 1 <= width <= 40:
        raise ValueError("1 to 40 inches")
    return width


def colours_of(text):
    """#RRGGBB of a palette's name, or of a list with commas. Raises Refused."""
    found = PALETTES.get(text) or text.split(",")
    for colour in found:
        if not is_color_like(colour):
            raise Refused(f"--colours {text}: '{colour}' is no colour; known: "
                           f"{', '.join(PALETTES)}, names of Matplotlib, and #RRGGBB")
    return [to_hex(colour).upper() for colour in found]
