"""A page that shows how far runs are and renews itself while they grow: scripts/report --follow."""
import collections
import functools
import http.server
import pathlib
import secrets
import sys
import threading
import time
import zlib

import matplotlib.pyplot as plt

from hanse.errors import Refused
from hanse.folders import Place, read_job
from hanse.several import case_name, names, places, studies_in

from .charting import draw_line, figure_of
from .curves import MAIN, series_of, words_for
from .figures import STYLE, svg_of, upper_first
from .html_parts import differences, figure, page, section, text
from .progress import STATES, described, progress_of
from .run_files import Runs

plt.rcParams.update(STYLE)
PORT, PORTS = 8765, 20  # the first that is tried, and how many
FILES = ("rounds.csv", "evaluations.csv", "bandit.csv", "summary.json", "lock")
SCRIPT = """
const now = document.getElementById("now"), said = document.getElementById("said");
let shown = "";
async function renew() {
  try {
    const answer = await fetch("now?" + shown, {cache: "no-store"});
    if (answer.status === 200) {
      const fresh = document.createElement("template");
      fresh.innerHTML = await answer.text();
      for (const part of [...fresh.content.children]) {
        const old = document.getElementById(part.id);
        if (!old) now.append(part);
        else if (old.outerHTML !== part.outerHTML) old.replaceWith(part);
      }
      shown = answer.headers.get("ETag");
      document.title = document.getElementById("head").dataset.title;
    }
    said.textContent = answer.status < 300 ? "" : "This address has ended.";
  } catch {
    said.textContent = "The view has ended, or cannot be reached; this is what it showed last.";
  }
  setTimeout(renew, document.hidden ? 10000 : 1500);
}
renew();
"""


class Watch:
    """What a page of these paths shows; nothing is read again that has not changed."""

    def __init__(self, paths):
        self.paths, self.known, self.drawn = list(paths), {}, (None, "")

    def places(self):
        """Those that have begun."""
        found = []
        for path in self.paths:
            try:
                found += places(path)
            except FileNotFoundError:
                pass
        return found

    def ask(self, folders):
        """How far these runs are is known then; whether they run is asked anew each time."""
        seen = {folder: signature(folder) for folder in folders}
        news = [folder for folder in folders if self.known.get(folder, (None,))[0] != seen[folder]
                or self.known[folder][1].state == "running"]
        self.known |= {folder: (seen[folder], one) for folder, one in progress_of(news).items()}

    def body(self):
        """The page's parts, each with an id."""
        found = self.places()
        called = names(found) if found else []
        self.ask([run for place in found for run in place.runs])
        rows = [(place, name, [self.known[run][1] for run in place.runs])
                for place, name in zip(found, called)]
        refused, waiting = self.not_begun(found)
        told = [one for *_, several in rows + refused for one in several]
        return (head(self.paths, told, waiting)
                + section("Runs", listed(rows + refused), name="runs")
                + section("Curves", self.charts(rows), name="curves")
                + (section("What differs between the jobs", differences(
                    called, [read_job(place.runs[0]) for place in found]), name="different")
                   if len(found) > 1 else ""))

    def not_begun(self, found):
        """Of runs that have no directory: rows of those that were refused, as of the others, and
        how many the rest are. `found`: the places of the others."""
        absent = [one for path in self.paths for study in studies_in(path)
                  for one in study.absent() if not one.begun]
        refused = [one for one in absent if one.why]
        shown = {place.path for place in found}
        waiting = sum(place.count - len(place.runs) for place in found)
        waiting += sum(one.folder.parent not in shown for one in absent) - len(refused)
        return [(Place(one.folder.parent, [one.folder], one.case.name, 2), case_name(one.case.name),
                 [described(one.folder, {"state": "stopped", "rounds": 0})])
                for one in refused], waiting

    def charts(self, rows):
        """A line for each run; drawn again where a run has a new evaluation."""
        evaluated = [(run, (run / name).stat().st_size) for place, *_ in rows for run in place.runs
                     for name in ("evaluations.csv", "bandit.csv") if (run / name).exists()]
        if self.drawn[0] != evaluated:
            self.drawn = evaluated, draw_all(rows)
        return self.drawn[1]


def signature(folder):
    """What changes when a run goes on."""
    stats = [(folder / name).stat() if (folder / name).exists() else None for name in FILES]
    return [one and (one.st_mtime_ns, one.st_size, one.st_ino) for one in stats]


def draw_all(rows):
    runs = [[Runs(folder) for folder in place.runs] for place, *_ in rows]
    parts = []
    for metric in MAIN:
        chart = functools.partial(lines_of_runs, rows=rows, members=runs, metric=metric)
        if drawn := figure_of([chart], [run for several in runs for run in several]):
            title = drawn.axes[0].get_title("left")
            parts.append(figure(title, svg_of(drawn, f"live-{metric}")))
            plt.close(drawn)
    return f'<div class="charts">{"".join(parts)}</div>' if parts else ""


def lines_of_runs(axis, _, rows, members, metric):
    """The runs of a case have one colour. Returns the legend's title: how many lines there are."""
    found = []
    for index, ((_, name, _), several) in enumerate(zip(rows, members)):
        for run in several:
            try:
                found += [(run, index, name, *one) for one in series_of(run, metric) if len(one[0])]
            except Refused:  # it has not come that far, or has no such metric
                continue
    label, factor = words_for(metric, [run for run, *_ in found])
    named = set()
    for _, index, name, x, y in found:
        draw_line(axis, x, factor * y, None if index in named else name, index, linewidth=1.2)
        named.add(index)
    title = label.removesuffix(" (%)")
    axis.set(title=upper_first(title), xlabel="round",
             ylabel=title.split(",")[0] + (" (%)" if factor == 100 else ""))
    return f"n = {len(found)}, a line each" if len(found) > 1 else None


def head(paths, found, waiting):
    """Where the runs are, in words and numbers. `waiting`: runs that have not begun."""
    counts = collections.Counter(one.state for one in found)
    words = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    title = ", ".join(pathlib.Path(path).resolve().name for path in paths)
    done, in_all = sum(one.rounds for one in found), sum(one.of_rounds or 0 for one in found)
    left = [one.seconds_left for one in found if one.seconds_left is not None]
    tiles = [(str(counts[state]), state) for state in STATES if counts[state]]
    tiles += [(str(waiting), "not begun")] if waiting else []
    tiles += [(f"{100 * done / in_all:.0f} %", f"of {in_all} rounds")] if in_all else []
    tiles += [(duration(max(left)), "until the last of those that run")] if left else []
    shown = "".join(f"<div class='tile'><b>{text(number)}</b><span>{text(what)}</span></div>"
                    for number, what in tiles)
    none = '<p class="warning">No run has begun yet.</p>' * (not found)
    return (f'<header id="head" data-title="{text(words or "no run yet")}: {text(title)}">'
            f"<h1>{text(title)}</h1>{none}<div class='tiles'>{shown}</div></header>")


def listed(rows):
    """A line for each run: those that run first, then those that failed."""
    lines = [(STATES.index(one.state), line_of(place, name, run, one))
             for place, name, several in rows for run, one in zip(place.runs, several)]
    lines = [line for _, line in sorted(lines, key=lambda one: one[0])]
    return f'<ul class="runs">{"".join(lines)}</ul>' if lines else ""


def line_of(place, name, run, one):
    words = [f"{one.rounds} of {one.of_rounds or '?'} rounds"]
    if one.rounds_per_second and one.state == "running":
        words.append(f"{one.rounds_per_second:.3g} rounds/s")
    if one.seconds_left is not None:
        words.append(f"{duration(one.seconds_left)} left")
    if one.value is not None:
        label, factor = words_for(one.metric, [Runs(run)])
        words.append(f"{label.removesuffix(' (%)')}: {factor * one.value:.4g}"
                     + (" %" if factor == 100 else ""))
    called = f"{name}, {run.name.replace('seed-', 'seed ')}" if place.several else name
    why = f'<p class="why">{text(one.why)}</p>' if one.why else ""
    return (f'<li class="{one.state}"><b>{text(called)}</b><i>{one.state}</i>'
            f'<progress aria-label="rounds" value="{one.rounds}" '
            f'max="{max(one.of_rounds or 0, one.rounds, 1)}"></progress>'
            f'<p>{text(" · ".join(words))}</p>{why}</li>')


def duration(seconds):
    """Seconds in two units: 42 s, 3 min 20 s, 2 h 5 min, 1 d 3 h."""
    seconds = round(seconds)
    for size, name, part, small in [(86400, "d", 3600, "h"), (3600, "h", 60, "min"),
                                    (60, "min", 1, "s")]:
        if seconds >= size:
            return f"{seconds // size} {name} {seconds % size // part} {small}"
    return f"{seconds} s"


class Answers(http.server.BaseHTTPRequestHandler):
    """/TOKEN/ is the page, /TOKEN/now?SHOWN what it shows, or status 204 where that is SHOWN."""

    def do_GET(self):  # noqa: N802  http.server's name
        place, _, shown = self.path.partition("?")
        if place == f"/{self.server.token}/":
            self.answer(200, self.server.page)
        elif place == f"/{self.server.token}/now":
            body = self.server.now()
            digest = f"{zlib.crc32(body.encode()):08x}"
            self.answer(*((204, "") if shown == digest else (200, body)), digest)
        else:
            self.answer(404, "")

    def answer(self, status, body, digest=None):
        data = body.encode()
        self.send_response(status)
        for name, value in [("Content-Type", "text/html; charset=utf-8"), ("ETag", digest),
                            ("Content-Length", None if status == 204 else len(data)),
                            ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
                            ("Content-Security-Policy", self.server.policy)]:
            if value is not None:
                self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Nothing: the terminal has the address and the end."""


class LiveServer(http.server.ThreadingHTTPServer):
    """Of this machine alone, and of who knows the token. Raises OSError where the port is taken."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, paths, port):
        super().__init__(("127.0.0.1", port), Answers)
        self.watch, self.lock, self.token = Watch(paths), threading.Lock(), secrets.token_urlsafe(9)
        self.newest = (0, "")
        own = secrets.token_urlsafe(9)
        self.policy = (f"default-src 'none'; script-src 'nonce-{own}'; style-src 'unsafe-inline'; "
                       "img-src data:; connect-src 'self'")
        self.page = page("Runs", '<main id="now"></main><p class="warning" id="said"></p>'
                         f'<script nonce="{own}">{SCRIPT}</script>',
                         '<link rel="icon" href="data:,">')

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def now(self):
        """What there is, at most a second old: several readers share it, and one thread draws."""
        with self.lock:
            if time.monotonic() > self.newest[0] + 1:
                self.newest = time.monotonic(), self.watch.body()
            return self.newest[1]

    def handle_error(self, request, client_address):
        """A reader that has gone is none; what else is wrong is told."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(paths, port=None):
    """The server of these runs, at the port, or at the first that is free. Raises OSError."""
    for number in [port] if port else [*range(PORT, PORT + PORTS), 0]:
        try:
            return LiveServer(paths, number)
        except OSError:
            if number in (port, 0):
                raise
    return None
