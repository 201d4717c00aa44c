"""One page of all tables of the papers, as Markdown and HTML: ours, paper, how far apart, verdict."""
import collections
import html
import pathlib
import re

from hanse.several import mean_and_deviation

from shared.sweeping import markdown_table

STYLE = pathlib.Path(__file__).resolve().parent / "report.css"
OWN_STYLE = """
body { max-width: 1600px; } p { max-width: 64rem; } .table table { width: auto; }
.table { overflow-x: auto; margin: .8rem 0; }
.table td, .table th { text-align: right; white-space: nowrap; }
.table td:first-child, .table th:first-child, .overview td, .overview th { text-align: left; }
.overview td { white-space: normal; }
td.agrees { color: var(--good); } td.near { color: var(--warning); } td.differs { color: var(--bad); }
"""
VERDICTS = ["agrees", "near", "differs", "open"]
EXPLAINED = ("Ours are mean (deviation over seeds). Behind the paper's number stands how far ours is from "
             "it, and a verdict: agrees, within the larger of both deviations; near, within twice as "
             "much; else differs; open, where neither has a deviation. A table without any is of curves "
             "or of our own: the paper prints no number for it.")
OVERVIEW = ["table", "command", *VERDICTS]


def paper_number(text):
    """(mean, deviation) of "84.42 (2.45)"; None for each that is not there."""
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*%?(?:\s*\((\d+(?:\.\d+)?)\))?\s*", text or "")
    if not found:
        return None, None
    return float(found[1]), None if found[2] is None else float(found[2])


def verdict(paper, ours):
    """The verdict on two (mean, deviation)."""
    if paper[0] is None or ours[0] is None:
        return "-"
    spread = max((deviation for deviation in (paper[1], ours[1]) if deviation is not None),
                 default=None)
    if spread is None:
        return "open"
    apart = abs(ours[0] - paper[0])
    return "agrees" if apart <= spread else "near" if apart <= 2 * spread else "differs"


def apart(text, numbers, percent):
    """How far our mean is from a paper's text, and the verdict; "-" where one has no number."""
    factor = 100 if percent else 1
    paper = paper_number(text)
    ours = [None if value is None else factor * value for value in mean_and_deviation(numbers)]
    if paper[0] is None or ours[0] is None:
        return "-"
    return f"{ours[0] - paper[0]:+.4g} {verdict(paper, ours)}"


def verdict_of(cell):
    """The verdict that a cell ends with, or nothing."""
    last = str(cell).rpartition(" ")[2]
    return last if last in VERDICTS else ""


def html_table(head, rows, kind="table"):
    def line(tag, cells):
        return "<tr>" + "".join(
            f"<{tag}" + (f' class="{verdict_of(c)}"' if verdict_of(c) and tag == "td" else "")
            + f">{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>\n"
    return (f'<div class="{kind}"><table>\n' + line("th", head)
            + "".join(line("td", row) for row in rows) + "</table></div>\n")


class Page:
    def __init__(self, title):
        self.title = title
        self.sections = []  # (title, command, note, head, rows)
        self.skipped = []   # (title, why)

    def add(self, title, command, note, head, rows):
        """A table, whose rows may have cells as `apart` makes them."""
        self.sections.append((title, command, note, head, rows))

    def overview(self):
        """A line for each table: how many of its numbers have which verdict."""
        lines = []
        for title, command, _, _, rows in self.sections:
            counts = collections.Counter(verdict_of(cell) for row in rows for cell in row)
            lines.append([title, command, *(counts[word] or "" for word in VERDICTS)])
        return lines

    def markdown(self):
        text = f"# {self.title}\n\n{EXPLAINED}\n\n{markdown_table(OVERVIEW, self.overview(), 2)}"
        for title, command, note, head, rows in self.sections:
            text += f"\n## {title}\n\n`{command}`\n\n{note}\n\n{markdown_table(head, rows)}"
        if self.skipped:
            text += f"\n## Not here\n\n{markdown_table(['table', 'why'], self.skipped, 2)}"
        return text

    def html(self):
        body = (f"<h1>{html.escape(self.title)}</h1>\n<p>{html.escape(EXPLAINED)}</p>\n"
                + html_table(OVERVIEW, self.overview(), "table overview"))
        for title, command, note, head, rows in self.sections:
            body += (f"<h2>{html.escape(title)}</h2>\n<p><code>{html.escape(command)}</code></p>\n"
                     f"<p>{html.escape(note)}</p>\n{html_table(head, rows)}")
        if self.skipped:
            body += ("<h2>Not here</h2>\n"
                     + html_table(["table", "why"], self.skipped, "table overview"))
        return ("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                f"<title>{html.escape(self.title)}</title>\n"
                f"<style>\n{STYLE.read_text()}{OWN_STYLE}</style>\n"
                f"</head><body><main>\n{body}</main></body></html>\n")

    def write(self, out):
        out.mkdir(parents=True, exist_ok=True)
        (out / "papers.md").write_text(self.markdown())
        (out / "papers.html").write_text(self.html())
