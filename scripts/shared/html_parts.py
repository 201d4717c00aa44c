"""Pieces of HTML that the pages of scripts/report are made of."""
import html
import pathlib

from .figures import dark_rules

STYLE = pathlib.Path(__file__).resolve().with_name("report.css")
OWN_KEYS = ("run.out", "run.name", "run.overwrite")  # differ between any two runs


def text(value):
    return html.escape(str(value))


def table(head, rows, code=False):
    """rows: [label, cell ...]; a cell is text or (text, classes)."""
    plain = "code" if code else "number"
    lines = []
    for label, *cells in rows:
        cells = [c if isinstance(c, tuple) else (c, plain) for c in cells]
        lines.append(f"<tr><th>{text(label)}</th>" + "".join(
            f'<td class="{classes}">{text(value)}</td>' for value, classes in cells) + "</tr>")
    top = "".join(f'<th class="{"" if code else "number"}">{text(name)}</th>' for name in head)
    return (f'<div class="box"><table><thead><tr><th></th>{top}</tr></thead>'
            f'<tbody>{"".join(lines)}</tbody></table></div>')


def section(title, *parts, name=""):
    """Nothing where there are no parts; `name` is its id."""
    body = "".join(part for part in parts if part)
    own = f' id="{name}"' if name else ""
    return f"<section{own}><h2>{text(title)}</h2>{body}</section>" if body else ""


def figure(title, svg):
    return f'<figure aria-label="{text(title)}">{svg}</figure>'


def differences(names, jobs):
    """A table of the keys whose values differ between these jobs."""
    keys = dict.fromkeys(key for job in jobs for key in job)
    different = [[key, *(job.get(key, "-") for job in jobs)] for key in keys
                 if key not in OWN_KEYS and len({job.get(key) for job in jobs}) > 1]
    return (table(names, different, code=True) if different else
            '<p class="quiet">The job files are the same.</p>')


def page(title, body, head=""):
    """A whole page, which needs no other file."""
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(title)}'
            '</title><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta name="color-scheme" content="light dark">{head}'
            f"<style>{STYLE.read_text()}{dark_rules()}</style></head><body>{body}</body></html>\n")
