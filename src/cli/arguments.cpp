#include <algorithm>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "hanse/base/kind.hpp"
#include "hanse/cli/program.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

namespace {

namespace po = boost::program_options;

const Verb& find_verb(const std::string& name) {
  const auto* found = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                   [&](const Verb& verb) { return name == verb.name; });
  if (found != std::end(kVerbs)) return *found;
  throw InvalidArgument(fmt::format("unknown command '{}'", name), "",
                        suggestion(name, names_of(kVerbs)));
}

bool has_flag(const Verb& verb, const std::string& flag) {
  return std::ranges::find(verb.flags, flag) != verb.flags.end();
}

// The first verb that has this flag; null: none.
const Verb* verb_with(const std::string& flag) {
  for (const Verb& verb : kVerbs) {
    if (has_flag(verb, flag)) return &verb;
  }
  return nullptr;
}

// "hanse plan takes", the commands that have the flag.
std::string takers(const Command& command) {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (command.flag_verb == verb.name || has_flag(verb, command.flag)) {
      names.push_back(std::string("hanse ") + verb.name);
    }
  }
  if (names.size() == 1) return names[0] + " takes";
  const auto last = names.end() - 1;
  return join({names.begin(), last}, ", ") + " and " + *last + " take";
}

// Throws the error of an unknown key, with the nearest known.
void refuse_unknown(const std::string& name) {
  KeyedJob scratch(catalog());
  scratch.table.set(name, "", "--" + name);
}

// A flag of some commands belongs to no other.
void check_flag(const Command& command, const Verb& verb) {
  if (command.flag.empty()) return;
  const bool lists = command.flag_verb == "list";
  const bool own = command.verb == command.flag_verb || has_flag(verb, command.flag);
  if (own && !(lists && !command.words.empty())) return;
  const bool of_privacy = command.flag_verb == "privacy" || command.flag_verb == "audit";
  if (of_privacy && verb_with(command.flag) == nullptr) refuse_unknown(command.flag);
  const std::string hint = command.flag_verb == "plan" ? "mpirun -n N sets the ranks of a run"
                           : command.flag == "check"   ? "run.check-rules checks the rules of a run"
                           : lists                     ? "write hanse list --" + command.flag
                                                       : "";
  throw InvalidArgument(fmt::format("only {} this option",
                                    lists ? "a hanse list of everything takes" : takers(command)),
                        "--" + command.flag, hint);
}

void check_words(const Verb& verb, const std::vector<std::string>& words) {
  if (words.size() < verb.fewest) {
    throw InvalidArgument(fmt::format("hanse {} needs {}", verb.name, verb.missing), "",
                          "hanse --help shows the commands");
  }
  if (words.size() > verb.most) {
    throw InvalidArgument(fmt::format("unexpected argument '{}'", words[verb.most]), "",
                          "options are written --section.key=value");
  }
}

// The options of commands whose values are no job's.
struct OwnOptions {
  explicit OwnOptions(Command& command) {
    bind_plan(plan, command.plan);
    bind_privacy_query(privacy, command.privacy);
    bind_audit(audit, command.audit);
    bind_predict(predict, command.predict);
  }

  bool contains(const std::string& key) const {
    return plan.contains(key) || privacy.contains(key) || audit.contains(key) ||
           predict.contains(key);
  }
  // REQUIRES: contains(key).
  void take(const std::string& key, const std::string& value, Command& command) {
    for (const auto& [verb, table] : {std::pair{"plan", &plan},
                                      {"privacy", &privacy},
                                      {"audit", &audit},
                                      {"predict", &predict}}) {
      if (!table->contains(key)) continue;
      table->set(key, value, "--" + key);
      command.flag_verb = verb;
    }
    command.flag = key;
  }

  OptionTable plan, privacy, audit, predict;
};

po::options_description known_options(const OptionTable& job, const OwnOptions& own) {
  po::options_description options;
  options.add_options()("help,h", "")("version", "");
  for (const Verb& verb : kVerbs) {
    for (const char* flag : verb.flags) {
      if (verb_with(flag) == &verb) options.add_options()(flag, "");
    }
  }
  for (const OptionTable* table : {&job, &own.plan, &own.privacy, &own.audit, &own.predict}) {
    for (const Option& option : table->options()) {
      options.add_options()(option.key.c_str(), po::value<std::string>());
    }
  }
  return options;
}

// "--key=" empties an option, which boost refuses: a space stands for the empty text.
std::vector<std::string> with_empty_values(std::vector<std::string> arguments) {
  for (std::string& word : arguments) {
    if (word.starts_with("--") && word.find('=') == word.size() - 1) word += ' ';
  }
  return arguments;
}

std::string value_of(const po::basic_option<char>& option) {
  return std::string(trim(option.value.front()));
}

// The number of ranks is no option of the program.
void check_ranks(const std::string& name) {
  for (const char* ranks : {"n", "np", "rank", "nprocs", "processes", "workers"}) {
    if (name != ranks) continue;
    throw InvalidArgument("unknown option", "--" + name,
                          "mpirun starts the ranks: mpirun -n N hanse run JOB.cfg");
  }
}

// `own` sets command.plan, command.privacy, command.audit and command.predict.
void take_option(const po::basic_option<char>& option, OwnOptions& own, Command& command) {
  const std::string key = option.string_key;
  if (key == "help") {
    if (command.verb.empty()) command.verb = "help";
  } else if (key == "version") {
    command.verb = "version";
  } else if (const Verb* verb = verb_with(key)) {
    command.flag = key;
    command.flag_verb = verb->name;
    command.plan.json |= key == "json";
    command.plan.advise |= key == "advise";
    command.privacy.json |= key == "json";
    command.audit.json |= key == "json";
    command.privacy.bits |= key == "bits";
    command.privacy.statement |= key == "statement";
  } else if (own.contains(key)) {
    own.take(key, value_of(option), command);
  } else if (!option.unregistered && !option.value.empty()) {
    command.overrides.emplace_back(key, value_of(option));
  } else {
    std::string name = option.original_tokens.empty() ? key : option.original_tokens.front();
    name = name.substr(0, name.find('='));
    name.erase(0, name.find_first_not_of('-'));
    check_ranks(name);
    refuse_unknown(name);
    throw InvalidArgument("an option needs a value", "--" + name, "write --section.key=value");
  }
}

}  // namespace

Command parse_command(const std::vector<std::string>& arguments) {
  const KeyedJob defaults(catalog());
  Command command;
  OwnOptions own(command);
  try {
    namespace style = po::command_line_style;
    const auto parsed = po::command_line_parser(with_empty_values(arguments))
                            .options(known_options(defaults.table, own))
                            .style(style::unix_style & ~style::allow_guessing)
                            .allow_unregistered()
                            .run();
    for (const auto& option : parsed.options) {
      if (option.position_key < 0) {
        take_option(option, own, command);
      } else {
        command.words.insert(command.words.end(), option.value.begin(), option.value.end());
      }
    }
  } catch (const po::error& error) {
    throw InvalidArgument(error.what(), "command line", "write --section.key=value");
  }
  if (command.words.empty() && command.verb.empty()) command.verb = "help";
  if (!command.verb.empty()) return command;
  command.verb = command.words.front();
  command.words.erase(command.words.begin());
  if (command.verb == "help") return command;
  const Verb& verb = find_verb(command.verb);
  check_words(verb, command.words);
  check_flag(command, verb);
  if (!verb.takes_options && !command.overrides.empty()) {
    throw InvalidArgument(fmt::format("hanse {} takes no options", verb.name),
                          "--" + command.overrides.front().first);
  }
  return command;
}

}  // namespace hanse
