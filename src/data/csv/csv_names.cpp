#include "csv/csv_names.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "csv/csv_numbers.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostShown = 4;

// A form shared by names that differ by blanks, dots at the end, small letters or, for numbers, the
// way they are written. Empty: a single letter, which may well differ from its small one.
std::string common_form(std::string_view name) {
  std::string form;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c == 0xC2 && name.substr(i).starts_with("\u00A0")) {
      ++i;
    } else if (c > ' ') {
      form += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  form.erase(form.find_last_not_of('.') + 1);
  if (form.find_first_of("0123456789") < 3) {  // behind a sign and a point
    if (const auto whole = whole_number(form)) return *whole;
  }
  return form.size() > 1 ? form : "";
}

bool is_word(const CsvName& name) { return !whole_number(name.text); }

// A class's place in the order of classes.
struct ClassKey {
  // If words are classes as well, a number is a name: two ways to write it are two classes.
  ClassKey(const CsvName& name, bool are_mixed) {
    auto whole = whole_number(name.text);
    is_word = !whole;
    if (whole) number = std::move(*whole);
    if (is_word || are_mixed) text = name.text;
  }

  bool operator<(const ClassKey& other) const {
    if (is_word != other.is_word) return other.is_word;
    if (number != other.number) return less_whole(number, other.number);
    return text < other.text;
  }

  bool is_word;
  std::string number, text;
};

// There are whole numbers and words. Do the words belong to the classes?
void check_mixture(const CsvNames& names) {
  const int64_t words = std::ranges::count_if(names.all(), is_word);
  const int64_t numbers = std::ssize(names.all()) - words;
  // If numbers are quoted as well, a word's quotes say nothing.
  const bool all_quoted =
      std::ranges::all_of(names.all(), [](const CsvName& name) { return name.quoted; });
  const std::string hint = all_quoted ? "correct it or remove the row"
                                      : "correct it or remove the row; in quotes it is a class";
  const CsvName* word = nullptr;
  for (const CsvName& name : names.all()) {
    if (!is_word(name)) continue;
    if (!word) word = &name;
    if (name.quoted && !all_quoted) continue;
    if (!meant_number(name.text).empty()) {
      throw InvalidArgument(fmt::format("label '{}' is no number as it is written", name.text),
                            names.where(name), number_hint(name.text));
    }
    if (name.missing == Missing::kNo) continue;
    throw InvalidArgument(
        fmt::format("the label is missing: '{}', among {} whole numbers", name.text, numbers),
        names.where(name), hint);
  }
  if (words == 1 && numbers > 1 && (all_quoted || !word->quoted)) {
    throw InvalidArgument(
        fmt::format("label '{}' is no number, and the {} others are", word->text, numbers),
        names.where(*word), hint);
  }
  warning(
      fmt::format("{}: {} of the classes are numbers and {} are none ('{}'); the numbers come "
                  "first",
                  names.file_and_column(*word), numbers, words, word->text));
}

}  // namespace

std::pair<int64_t, bool> CsvNames::number(const CsvField& field) {
  const auto found = number_of_.find(field.text);
  const bool is_new = found == number_of_.end();
  const Missing missing =
      is_new ? missing_mark(field.text) : names_[to_index(found->second)].missing;
  if (missing == Missing::kYes && !field.quoted) {
    throw InvalidArgument(
        fmt::format("the {} is missing: '{}'",
                    what_ == NamesOf::kClients   ? "client"
                    : what_ == NamesOf::kClasses ? "label"
                                                 : "category",
                    field.text),
        here(),
        fmt::format("fill it in or remove the row; \"{}\" in quotes is a name", field.text));
  }
  if (!is_new) return {found->second, false};
  require_utf8(field.text, here());
  const int64_t number = std::ssize(names_);
  names_.push_back({field.text, &scanner_.file(), scanner_.line(), field.quoted, missing});
  number_of_.emplace(names_.back().text, number);
  return {number, true};
}

void CsvNames::say_what_is_odd() const {
  std::vector<std::string> marks, pairs;
  const CsvName *mark = nullptr, *pair = nullptr;  // the first ones
  std::unordered_map<std::string, const CsvName*> first_of;
  first_of.reserve(names_.size());
  for (const CsvName& name : names_) {
    // Who puts "none" in quotes knows that it is a name.
    if (name.missing == Missing::kYes || (name.missing == Missing::kPerhaps && !name.quoted)) {
      if (!mark) mark = &name;
      marks.push_back(fmt::format("'{}'", name.text));
    }
    if (what_ != NamesOf::kClients && whole_number(name.text))
      continue;  // labels are numbers by value
    const std::string form = common_form(name.text);
    const auto [first, is_new] = first_of.emplace(form, &name);
    if (is_new || form.empty()) continue;
    if (!pair) pair = &name;
    pairs.push_back(fmt::format("'{}' and '{}'", first->second->text, name.text));
  }
  const auto some = [](const std::vector<std::string>& all) {
    const std::vector<std::string> first(
        all.begin(), all.begin() + std::min(std::ssize(all), std::ptrdiff_t{kMostShown}));
    return fmt::format("{}{}", fmt::join(first, ", "), all.size() > kMostShown ? ", ..." : "");
  };
  const char* what = what_ == NamesOf::kClients   ? "client"
                     : what_ == NamesOf::kClasses ? "class"
                                                  : "category";
  if (!marks.empty()) {
    notice(fmt::format("{}: {} names a {} as any text does", file_and_column(*mark), some(marks),
                       what));
  }
  if (!pairs.empty()) {
    warning(
        fmt::format("{}: {}, alike but for blanks, dots, small letters or zeros, are each a {} "
                    "of its own",
                    file_and_column(*pair), some(pairs), what));
  }
}

std::string CsvNames::file_and_column(const CsvName& name) const {
  return fmt::format("{}, {}", *name.file, place_);
}

std::string CsvNames::where(const CsvName& name) const {
  return fmt::format("{}:{}, {}", *name.file, name.line, place_);
}

std::string CsvNames::here() const {
  return fmt::format("{}:{}, {}", scanner_.file(), scanner_.line(), place_);
}

SortedNames sorted_names(const CsvNames& names, bool are_mixed) {
  std::map<ClassKey, int64_t> place_of;
  std::vector<const int64_t*> places;
  for (const CsvName& name : names.all()) places.push_back(&place_of[ClassKey(name, are_mixed)]);
  SortedNames sorted;
  for (auto& [key, place] : place_of) {
    place = std::ssize(sorted.names);
    sorted.names.push_back(key.text.empty() ? key.number : key.text);
  }
  for (const int64_t* place : places) sorted.places.push_back(*place);
  return sorted;
}

void number_classes(const CsvNames& names, Dataset& dataset) {
  const auto words = std::ranges::count_if(names.all(), is_word);
  const bool are_mixed = words > 0 && words < std::ssize(names.all());
  if (are_mixed) check_mixture(names);
  SortedNames sorted = sorted_names(names, are_mixed);
  dataset.classes = std::ssize(sorted.names);
  dataset.class_names = without_numbers(std::move(sorted.names));
  for (int32_t& label : dataset.labels) {
    label = static_cast<int32_t>(sorted.places[to_index(label)]);
  }
}

}  // namespace hanse
