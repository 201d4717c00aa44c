"""One page of all tables of the papers, as Markdown and HTML: paper, ours, deviation, verdict."""
import html
import pathlib
import re

from shared import sweeping

STYLE = pathlib.Path(__file__).resolve().parent / "report.css"
HEAD = ["", "column", "paper", "ours", "ours - paper", "verdict"]
EXPLAINED = ("Ours are mean (deviation over seeds). Verdict: agrees, within the larger of both "
             "deviations; near, within twice as much; else differs; open, where neither has one.")


def paper_number(text):
    """(mean, deviation) of "84.42 (2.45)"; None for each that is not there."""
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*%?(?:\s*\((\d+(?:\.\d+)?)\))?\s*", text or "")
    if not found:
        return None, None
    return float(found[1]), None if found[2] is None else float(found[2])


def verdict(paper, ours):
    """Of two (mean, deviation)."""
    if paper[0] is None or ours[0] is None:
        return "-"
    spread = max((deviation for deviation in (paper[1], ours[1]) if deviation is not None),
                 default=None)
    if spread is None:
        return "open"
    apart = abs(ours[0] - paper[0])
    return "agrees" if apart <= spread else "near" if apart <= 2 * spread else "differs"


def comparison(table, numbers):
    """A line for each number of the paper; `numbers` [rows][columns] are ours, (mean, deviation)."""
    lines = []
    for row, own in zip(table["rows"], numbers):
        for column, text, (mean, deviation) in zip(table["columns"], row.get("paper", []), own):
            if not text:
                continue
            percent = column.get("scale") == "percent"
            factor = 100 if percent else 1
            ours = (None if mean is None else factor * mean,
                    None if deviation is None else factor * deviation)
            paper = paper_number(text)
            known = paper[0] is not None and ours[0] is not None
            lines.append([row["name"], column["label"], text,
                          sweeping.cell_text(mean, deviation, percent),
                          f"{ours[0] - paper[0]:+.4g}" if known else "-", verdict(paper, ours)])
    return lines


def markdown_table(head, rows):
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "".join("| " + " | ".join(str(c).replace("|", r"\|") for c in line) + " |\n"
                   for line in lines)


def html_table(head, rows):
    def line(tag, cells):
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>\n"
    return "<table>\n" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>\n"


class Page:
    def __init__(self, title):
        self.title = title
        self.sections = []  # (title, command, note, head, rows, comparison)
        self.skipped = []   # (title, why)

    def add(self, title, command, note, head, rows, lines):
        self.sections.append((title, command, note, head, rows, lines))

    def markdown(self):
        text = f"# {self.title}\n\n{EXPLAINED}\n"
        for title, command, note, head, rows, lines in self.sections:
            text += f"\n## {title}\n\n`{command}`\n\n{note}\n\n{markdown_table(head, rows)}"
            if lines:
                text += f"\n{markdown_table(HEAD, lines)}"
        if self.skipped:
            text += f"\n## Not here\n\n{markdown_table(['table', 'why'], self.skipped)}"
        return text

    def html(self):
        body = f"<h1>{html.escape(self.title)}</h1>\n<p>{html.escape(EXPLAINED)}</p>\n"
        for title, command, note, head, rows, lines in self.sections:
            body += (f"<h2>{html.escape(title)}</h2>\n<p><code>{html.escape(command)}</code></p>\n"
                     f"<p>{html.escape(note)}</p>\n{html_table(head, rows)}")
            if lines:
                body += html_table(HEAD, lines)
        if self.skipped:
            body += f"<h2>Not here</h2>\n{html_table(['table', 'why'], self.skipped)}"
        return ("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                f"<title>{html.escape(self.title)}</title>\n<style>\n{STYLE.read_text()}</style>\n"
                f"</head><body><main>\n{body}</main></body></html>\n")

    def write(self, out):
        out.mkdir(parents=True, exist_ok=True)
        (out / "papers.md").write_text(self.markdown())
        (out / "papers.html").write_text(self.html())
