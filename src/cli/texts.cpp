#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/cli/program.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/summary.hpp"

namespace hanse {

namespace {

// `use` is the option itself, or its use by a kind.
template <class Use>
std::string option_line(const Option& option, const Use& use) {
  return fmt::format("    {} = {}{}\n        {}\n", option.key,
                     use.default_text.empty() ? "(empty)" : use.default_text,
                     use.range.empty() ? "" : "  " + use.range, use.help);
}

// Options of a section that all its kinds share.
std::string shared_lines(const OptionTable& table, const std::string& section) {
  std::string text;
  for (const Option& option : table.options()) {
    if (option.section() != section || !option.uses.empty()) continue;
    text += option_line(option, option);
  }
  return text;
}

std::string summary_of(const KindRow<Job>& kind) {
  return kind.summary + (kind.cpus_alone ? "; CPUs alone" : "");
}

// Lists a kind's options: those of any section that it alone reads.
std::string family_text(const KindFamily& family, const OptionTable& table) {
  std::string text = fmt::format("{} ({})\n", family.name, family.key);
  std::size_t longest = 0;
  for (const auto& entry : family.rows) longest = std::max(longest, entry.name.size());
  for (const auto& entry : family.rows) {
    text += fmt::format("  {:<{}}  {}\n", entry.name, longest, summary_of(entry));
    for (const Option& option : table.options()) {
      for (const KindUse& use : option.uses) {
        if (use.selector != family.key || use.kind != entry.name) continue;
        text += option_line(option, use);
      }
    }
  }
  const std::string shared = shared_lines(table, family.section());
  if (!shared.empty()) text += fmt::format("  options of every kind\n{}", shared);
  return text + "\n";
}

constexpr const char* kHead = R"(# Every key of a job file

`hanse list --markdown` prints this page, and a test compares the two. [README.md](README.md)
explains how a job file works.

A key with "only for" belongs to the named kinds, and kinds may give one key defaults and meanings
of their own. Where none of its kinds is chosen the key is ignored, and the run says so in one line.
`hanse resume` takes only keys marked "may change on resume". GPUs train all jobs but those with
kinds marked "CPUs alone" ([how](clusters-and-gpus.md#gpus)).
)";

// A cell of a table, which '|' would end.
std::string cell(std::string text) {
  for (std::size_t bar = 0; (bar = text.find('|', bar)) != std::string::npos; bar += 2) {
    text.insert(bar, 1, '\\');
  }
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

// One row of a section's table; `use` as above.
template <class Use>
std::string row(const Option& option, const Use& use, const std::string& kinds) {
  return fmt::format("| {} | {} | {} | {}{}{} |\n", code(option.key), code(use.default_text),
                     code(use.range), cell(use.help), kinds,
                     option.may_change ? "; may change on resume" : "");
}

// Kinds that use the option in one way share a row.
std::string option_rows(const Option& option) {
  if (option.uses.empty()) return row(option, option, "");
  std::string text;
  for (auto use = option.uses.begin(); use != option.uses.end(); ++use) {
    const auto same = [&](const KindUse& other) {
      return other.selector == use->selector && other.help == use->help &&
             other.range == use->range && other.default_text == use->default_text;
    };
    if (std::any_of(option.uses.begin(), use, same)) continue;
    std::vector<std::string> kinds;
    for (const KindUse& other : option.uses) {
      if (same(other)) kinds.push_back(other.kind);
    }
    const bool own = use->selector.substr(0, use->selector.find('.')) == option.section();
    text += row(option, *use,
                "; only for " + code((own ? "" : use->selector + " = ") + join(kinds, ", ")));
  }
  return text;
}

constexpr const char* kConflictsHead = R"(# What does not go together

`hanse list --conflicts` prints this page, and a test compares the two. `hanse check`, `plan` and
`run` refuse a job in which both sides of a row are true before they read any data, with the key
that is to change; of several rows the first one counts. What depends on the data, such as
the number of clients or the layers of a model, is checked when they have been read.
)";

constexpr const char* kOneByOneHead = R"(
## What GPUs train one client after the other

With one of these a GPU trains a round's clients one after the other, as a CPU does, and a line at
the start says so; else it trains them side by side ([GPUs](clusters-and-gpus.md#gpus)).

| With this | because | Key |
|---|---|---|
)";

// A text without a job, about a fact: {KEY} is `KEY`.
std::string without_job(std::string text, const Fact& fact) {
  const auto put = [&text](const std::string& name, const std::string& value) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size()) {
      text.replace(at, name.size(), value);
    }
  };
  put("{key}", fact.key);
  put(": {detail}", "");
  put("{", "`");
  put("}", "`");
  return cell(text);
}

std::string kind_rows(const std::string& section) {
  std::string text;
  for (const KindFamily& family : catalog()) {
    if (family.section() != section) continue;
    text += fmt::format("\n| {} | |\n|---|---|\n", code(family.key));
    for (const auto& entry : family.rows) {
      text += fmt::format("| {} | {} |\n", code(entry.name), cell(summary_of(entry)));
    }
  }
  return text;
}

}  // namespace

std::string usage_text() {
  return R"(Hanse trains federated models on clusters.

  hanse run JOB.cfg [--section.key=value ...]     train; alone or under mpirun or srun
  hanse resume RUN_DIR [--section.key=value ...]  continue from the last complete checkpoint
  hanse plan JOB.cfg [--ranks=N ...]              memory, bytes and time a round; keeps nothing;
      --hosts=H --cores=C (a host) --link-gbit=G --latency-us=L (of its network link) --json
      --advise                                    how many ranks and nodes bring something, and why
  hanse privacy JOB.cfg [--rounds=N,... ...]      what privacy costs and how strong the noise is;
      --per-round=K,... --epsilon=E,... (noise that meets it) --json --bits    trains nobody
      --statement                                 the same as a paragraph for a paper
  hanse audit JOB.cfg [--runs=N ...]              does its privacy hold? trains with and without a
      --confidence=C --curve=FILE.csv --json      canary, N times each; keeps nothing
  hanse check JOB.cfg [--section.key=value ...]   are its options right? reads no data
  hanse convert JOB.cfg OUT.h5                    its data and clients as one file to map
  hanse predict RUN_DIR DATA [--out=FILE ...]     what its model says of new data, a line a sample
      --client=NAME --model=FILE --unknown=missing
  hanse publish RUN_DIR NEW_DIR                   copies what a private run may publish, no more
  hanse replay TRACE.json [--check]               one rule on recorded feedback, JSON to stdout;
      --check proves that the rule depends on its inputs and its saved state alone
  hanse list [KIND]                               what a job file can choose, with all options
  hanse list --markdown                           the same as the tables of jobs/keys.md
  hanse list --conflicts                          what a job cannot have together, and why
  hanse list --man, hanse list --bash             a manual page; completion for bash
  hanse status RUNS... [--json]                   runs, repeats, sweeps: how far each is, its rate,
      the time it needs, and its newest result
  hanse inspect FILE.h5 [--verify]                what a checkpoint, model or data file holds;
      --verify reads all of it and compares with its digest
  hanse --version                                 versions of Hanse and its libraries

A job file has [section] lines and key = value lines; each key is also an option
--section.key=value, which wins. Example: mpirun -n 2 hanse run jobs/fashion-mnist.cfg

Exit status: 0 done (also diverged, with run.on-divergence=stop), 1 failed while running,
2 bad usage, option or input, 75 stopped on request
after a checkpoint (SIGUSR1, SIGUSR2, SIGXCPU, SIGTERM, SIGHUP, Ctrl-C without mpirun,
run.max-seconds).
)";
}

std::string version_text(const Start& start) {
  bool has_torch = true;
  try {
    torch_library();  // loaded, so that its version is shown, too
  } catch (const InvalidArgument&) {
    has_torch = false;
  }
  std::string text, others;
  for (const std::string& version : torch_versions()) {
    others += fmt::format(", HANSE_TORCH={}", version);
  }
  for (const auto& [name, version] : versions()) {
    const bool is_torch = name == "libtorch";
    text += fmt::format("{:<9} {}\n", name,
                        !is_torch    ? version
                        : !has_torch ? fmt::format("none; {} adds it", torch_command())
                                     : version + others);
  }
  for (const auto& [name, found] :
       {std::pair{"program", start.program}, std::pair{"mpi from", start.mpi_library}}) {
    text += fmt::format("{:<9} {}\n", name, found);
  }
  return text;
}

std::string list_text(const std::string& kind) {
  const KeyedJob defaults(catalog());
  std::string text;
  std::vector<std::string> names, covered;
  for (const KindFamily& family : catalog()) {
    names.push_back(family.name);
    covered.push_back(family.section());
    const bool wanted = kind.empty() || kind == family.name || kind == covered.back();
    if (wanted) text += family_text(family, defaults.table);
  }
  for (const Option& option : defaults.table.options()) {
    const std::string section = option.section();
    if (std::find(covered.begin(), covered.end(), section) != covered.end()) continue;
    covered.push_back(section);
    names.push_back(section);
    if (kind.empty() || kind == section) {
      text += fmt::format("[{}]\n{}\n", section, shared_lines(defaults.table, section));
    }
  }
  if (text.empty()) {
    throw InvalidArgument(fmt::format("unknown kind '{}'", kind), "hanse list",
                          suggestion(kind, names));
  }
  return text;
}

std::string list_markdown() {
  const KeyedJob defaults(catalog());
  std::string text = kHead;
  std::string section;
  for (const Option& option : defaults.table.options()) {
    if (option.section() != section) {
      if (!section.empty()) text += kind_rows(section);
      section = option.section();
      text += fmt::format("\n## [{}]\n\n| key | default | range | meaning |\n|---|---|---|---|\n",
                          section);
    }
    text += option_rows(option);
  }
  return text + kind_rows(section);
}

std::string conflicts_page() {
  std::string text = kConflictsHead;
  for (const ConflictGroup& group : conflict_groups()) {
    text += fmt::format("\n## {}\n\n| This | and this | Why not | Change |\n|---|---|---|---|\n",
                        group.title);
    for (const Conflict& conflict : group.rows) {
      const std::string hint = conflict.hint;
      text += fmt::format("| {} | {} | {} | {}{} |\n", conflict.one->name, conflict.other->name,
                          without_job(conflict.what, *conflict.other),
                          conflict.key ? conflict.key : conflict.other->key,
                          hint.empty() ? "" : ": " + without_job(hint, *conflict.other));
    }
  }
  text += kOneByOneHead;
  for (const auto& [fact, why] : one_by_one_facts()) {
    text += fmt::format("| {} | {} | {} |\n", fact->name, without_job(why, *fact), fact->key);
  }
  return text;
}

}  // namespace hanse
