// The files of an installation that are made of the program's own rows: the manual page and the
// completion of command lines in bash.
#include <fmt/format.h>

#include "hanse/cli/program.hpp"
#include "hanse/config.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

namespace {

// Text for a manual page: no dash becomes a hyphen, and no line a request.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += std::string("\\&") + c;
    else
      result += c;
  }
  return result;
}

std::string entry(const std::string& head, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(head), roff(text));
}

std::string key_entry(const Option& option) {
  std::string head = fmt::format("{}={}", option.key, option.default_text);
  std::string text = option.help;
  for (const KindUse& use : option.uses) {
    text += fmt::format("{} {}", &use == &option.uses.front() ? "; for" : ",", use.kind);
  }
  if (!option.range.empty()) text += fmt::format("; {}", option.range);
  return entry(head, text);
}

// The lines of a bash `case` that set `words` when `verb` or `key` is `what`.
std::string when(const std::string& what, const std::string& words) {
  return fmt::format("    {}) words=\"{}\" ;;\n", what, words);
}

std::string keys_of(const OptionTable& table, bool resumed) {
  std::string text;
  for (const Option& option : table.options()) {
    if (!resumed || option.may_change) text += fmt::format("--{}= ", option.key);
  }
  return text;
}

// The words among which the value is; "" if it is any number or text.
std::string values_of(const Option& option) {
  for (const KindFamily& family : catalog()) {
    if (family.key == option.key) return join(names_of(family.rows), " ");
  }
  return option.range.find(" | ") == std::string::npos ? ""
                                                       : join(split_list(option.range, '|'), " ");
}

constexpr const char* kCompletion =
    R"(# Completion of hanse in bash; `hanse list --bash` has made it.
_hanse() {
  local word=$2 key= words= i
  # bash takes --key=value apart at "=".
  if [[ $word == = ]]; then
    key=$3 word=
  elif [[ $3 == = ]]; then
    key=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  if [[ -n $key ]]; then
    case $key in
VALUES    esac
  elif ((COMP_CWORD == 1)); then
    words="VERBS--help --version"
  elif [[ $word == -* ]]; then
    case ${COMP_WORDS[1]} in
OPTIONS    esac
  elif [[ ${COMP_WORDS[1]} == list ]]; then
    words="FAMILIES"
  fi
  for i in $(compgen -W "$words" -- "$word"); do COMPREPLY+=("$i"); done
  [[ ${#COMPREPLY[@]} != 1 || $COMPREPLY != *= ]] || compopt -o nospace
}
complete -o default -F _hanse hanse
)";

void put(std::string& text, const std::string& name, const std::string& value) {
  text.replace(text.find(name), name.size(), value);
}

}  // namespace

std::string manual_page() {
  const KeyedJob defaults(catalog());
  std::string text = fmt::format(
      ".TH HANSE 1 \"\" \"hanse {}\" \"User Commands\"\n.SH NAME\nhanse \\- trains federated "
      "models "
      "on clusters\n.SH SYNOPSIS\n",
      kVersion);
  for (const Verb& verb : kVerbs) text += fmt::format(".B hanse {}\n.I ...\n.br\n", verb.name);
  text += fmt::format(".SH COMMANDS\n.nf\n{}.fi\n.SH KINDS\n", roff(usage_text()));
  for (const KindFamily& family : catalog()) {
    text += fmt::format(".SS {} ({})\n", roff(family.name), roff(family.key));
    for (const auto& row : family.rows) text += entry(row.name, row.summary);
  }
  text += ".SH KEYS\nWith their defaults.\n";
  std::string section;
  for (const Option& option : defaults.table.options()) {
    if (option.section() != section) text += fmt::format(".SS [{}]\n", section = option.section());
    text += key_entry(option);
  }
  return text + ".SH SEE ALSO\n.BR mpirun (1)\n";
}

std::string bash_completion() {
  const KeyedJob defaults(catalog());
  OptionTable plan, privacy, audit, predict;
  PlanOptions plan_options;
  PrivacyQuery privacy_query;
  bind_plan(plan, plan_options);
  AuditQuery audit_query;
  bind_privacy_query(privacy, privacy_query);
  bind_audit(audit, audit_query);
  PredictQuery predict_query;
  bind_predict(predict, predict_query);
  std::string verbs, options, values, families;
  for (const Verb& verb : kVerbs) {
    const std::string name = verb.name;
    verbs += name + " ";
    std::string words;
    for (const char* flag : verb.flags) words += fmt::format("--{} ", flag);
    if (name == "plan") words += keys_of(plan, false);
    if (name == "privacy") words += keys_of(privacy, false);
    if (name == "audit") words += keys_of(audit, false);
    if (name == "predict") words += keys_of(predict, false);
    if (verb.takes_options) words += keys_of(defaults.table, name == "resume");
    options += when(name, words);
  }
  for (const Option& option : defaults.table.options()) {
    const std::string words = values_of(option);
    if (!words.empty()) values += when("--" + option.key, words);
  }
  for (const KindFamily& family : catalog()) families += family.name + " ";
  std::string text = kCompletion;
  put(text, "VALUES", values);
  put(text, "VERBS", verbs);
  put(text, "OPTIONS", options);
  put(text, "FAMILIES", families);
  return text;
}

}  // namespace hanse
