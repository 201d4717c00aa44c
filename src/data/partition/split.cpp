#include "partition/split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/data/names.hpp"
#include "hanse/data/partition.hpp"
#include "partition/partition_kinds.hpp"

namespace hanse {

namespace {

// Moves the chosen elements behind the others; both keep their order. Returns where they begin.
template <class T>
int64_t move_behind(std::span<T> values, const std::vector<char>& chosen) {
  std::vector<T> last;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (chosen[i]) {
      last.push_back(values[i]);
    } else {
      values[kept++] = values[i];
    }
  }
  std::copy(last.begin(), last.end(), values.begin() + static_cast<int64_t>(kept));
  return static_cast<int64_t>(kept);
}

// Splits every client's training samples.
void split_each(Partition& partition, ClientSplitter& splitter) {
  for (std::size_t c = 0; c < partition.train_end.size(); ++c) {
    int64_t& end = partition.train_end[c];
    const int64_t begin = partition.offsets[c];
    const std::span<int64_t> own(partition.order.data() + begin, partition.order.data() + end);
    end = begin + splitter.split(own, c);
  }
}

constexpr std::string_view kName = "name:";  // in front of a name that is a number
constexpr std::string_view kEach = "each";   // scripts/sweep's word

bool is_number(const std::string& word) {
  try {
    parse_number(word);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

struct Word {
  std::string text;
  bool is_quoted = false;
};

// The words of a list with commas; in quotes a word may have commas, and "" is one quote.
std::vector<Word> quoted_words(std::string_view text) {
  std::vector<Word> words;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    Word word{.is_quoted = text.front() == '"'};
    std::size_t end = std::min(text.find(','), text.size());
    if (word.is_quoted) {
      for (end = 1; end < text.size() && (text[end] != '"' || text.substr(end, 2) == "\"\"");
           ++end) {
        if (text[end] == '"') ++end;
        word.text += text[end];
      }
      if (end >= text.size()) throw InvalidArgument("a quote does not end");
      const std::string_view rest = trim(text.substr(end + 1));
      if (!rest.empty() && rest.front() != ',') {
        throw InvalidArgument("text follows a closing quote", "", "a comma parts names");
      }
      text = rest;
    } else {
      word.text = trim(text.substr(0, end));
      text.remove_prefix(end);
    }
    const bool goes_on = !text.empty();
    words.push_back(std::move(word));
    if (!goes_on) break;
    text.remove_prefix(1);
    if (trim(text).empty()) words.emplace_back();  // behind the last comma
  }
  return words;
}

}  // namespace

void check_part(double wanted, const std::string& key) {
  constexpr double kMost = 1e15;  // every whole number below is exact
  if (wanted >= 0 && wanted < kMost && (wanted < 1 || wanted == std::floor(wanted))) return;
  throw InvalidArgument(fmt::format("{} is neither a share nor a number", wanted), key,
                        "a share below 1, or a whole number");
}

int64_t part_of(double wanted, int64_t n) {
  return wanted < 1 ? std::llround(wanted * static_cast<double>(n)) : std::llround(wanted);
}

int64_t samples_kept_out(int64_t n, double wanted) {
  return std::min(part_of(wanted, n), std::max<int64_t>(n - 1, 0));
}

void require_training(int64_t n, double validation_fraction, const std::string& client) {
  if (n == 0 || part_of(validation_fraction, n) < n) return;
  throw InvalidArgument(
      fmt::format("{} would have nothing to train on: it has {} sample{} beside those for tests",
                  client, n, n == 1 ? "" : "s"),
      kValidationPart.key, "a smaller share, or fewer samples, for validation");
}

ClientSplitter::ClientSplitter(std::span<const int32_t> labels, int64_t classes, double wanted,
                               uint64_t seed, const SamplePart& part)
    : labels_(labels),
      wanted_(wanted),
      seed_(seed),
      stream_(part.stream),
      stratum_of_(static_cast<std::size_t>(std::max<int64_t>(classes, 1)), -1) {
  check_part(wanted, part.key);
}

void ClientSplitter::count_strata(std::span<const int64_t> own) {
  strata_.clear();
  for (const int64_t place : places_) {
    int64_t& stratum = stratum_of_[label(own[static_cast<std::size_t>(place)])];
    if (stratum < 0) {
      stratum = static_cast<int64_t>(strata_.size());
      strata_.push_back({});
    }
    ++strata_[static_cast<std::size_t>(stratum)].samples;
  }
}

// floor(fraction * n_label) each; the rest goes, one by one, to the largest remainders. Equal
// remainders stand in random order, so that no label is preferred.
void ClientSplitter::set_counts(int64_t samples) {
  int64_t missing = samples_kept_out(samples, wanted_);
  const double fraction =
      wanted_ < 1 ? wanted_ : static_cast<double>(missing) / static_cast<double>(samples);
  std::vector<Stratum*> by_remainder;
  for (Stratum& stratum : strata_) {
    const double share = fraction * static_cast<double>(stratum.samples);
    stratum.chosen = static_cast<int64_t>(share);
    stratum.remainder = share - std::floor(share);
    missing -= stratum.chosen;
    by_remainder.push_back(&stratum);
  }
  std::stable_sort(by_remainder.begin(), by_remainder.end(),
                   [](const Stratum* a, const Stratum* b) { return a->remainder > b->remainder; });
  for (Stratum* stratum : by_remainder) {
    if (missing <= 0) break;
    if (stratum->chosen == stratum->samples) continue;
    ++stratum->chosen;
    --missing;
  }
}

void ClientSplitter::mark_chosen(std::span<const int64_t> own) {
  chosen_.assign(own.size(), 0);
  for (const int64_t place : places_) {
    const auto at = static_cast<std::size_t>(place);
    const int64_t stratum = stratum_of_[label(own[at])];
    if (strata_[static_cast<std::size_t>(stratum)].chosen-- > 0) chosen_[at] = 1;
  }
}

int64_t ClientSplitter::split(std::span<int64_t> own, uint64_t client) {
  places_.resize(own.size());
  std::iota(places_.begin(), places_.end(), int64_t{0});
  RandomStream(seed_, Purpose::kSplit, stream_, client).shuffle(std::span<int64_t>(places_));
  count_strata(own);
  set_counts(static_cast<int64_t>(own.size()));
  mark_chosen(own);
  for (const int64_t sample : own) stratum_of_[label(sample)] = -1;  // ready for the next client
  return move_behind(own, chosen_);
}

void split_train_test(Partition& partition, const Dataset& dataset, double test_fraction,
                      uint64_t seed) {
  ClientSplitter splitter(dataset.sample_classes(), dataset.classes, test_fraction, seed);
  if (test_fraction > 0) split_each(partition, splitter);
}

void split_validation(Partition& partition, const Dataset& dataset,
                      const std::vector<std::string>& names, double validation_fraction,
                      uint64_t seed) {
  ClientSplitter splitter(dataset.sample_classes(), dataset.classes, validation_fraction, seed,
                          kValidationPart);
  if (validation_fraction == 0) return;
  std::vector<int64_t> before = partition.train_end;
  for (std::size_t c = 0; c < before.size(); ++c) {
    require_training(before[c] - partition.offsets[c], validation_fraction,
                     label_of("client", static_cast<int64_t>(c), names.empty() ? "" : names[c]));
  }
  split_each(partition, splitter);
  for (std::size_t c = 0; c < before.size(); ++c) before[c] -= partition.train_end[c];
  partition.validation = std::move(before);
}

HeldOut HeldOut::parse(std::string_view text) {
  const std::vector<Word> words = quoted_words(text);
  HeldOut held_out;
  if (words.size() == 1 && !words[0].is_quoted && is_number(words[0].text)) {
    held_out.number = parse_number(words[0].text);
    if (held_out.number >= 0) return held_out;
    throw InvalidArgument(fmt::format("{} is not in [0, inf)", words[0].text));
  }
  for (const auto& [word, is_quoted] : words) {
    if (is_quoted) {
      held_out.names.push_back(word);
      if (word.empty()) throw InvalidArgument("a name is empty");
      continue;
    }
    if (word == kEach) {
      throw InvalidArgument("'each' holds every client out once: it is for scripts/sweep", "",
                            "a client of this name is written name:each");
    }
    if (is_number(word)) {
      throw InvalidArgument(fmt::format("'{}' is a number among names", word), "",
                            fmt::format("a client of this name is written name:{}", word));
    }
    held_out.names.push_back(word.starts_with(kName) ? word.substr(kName.size()) : word);
    if (held_out.names.back().empty()) throw InvalidArgument("a name is empty");
  }
  if (words.empty()) throw InvalidArgument("expected a number or names", "", "0: nobody");
  return held_out;
}

std::string HeldOut::text() const {
  if (names.empty()) return fmt::format("{}", number);
  std::vector<std::string> words;
  for (const std::string& name : names) {
    const bool is_plain = !is_number(name) && name != kEach && !name.starts_with(kName);
    const std::string field = csv_field(name);  // a list has the quotes of a table
    words.push_back(is_plain || field != name ? field : std::string(kName) + name);
  }
  return join(words, ",");
}

std::vector<char> chosen_clients(const HeldOut& wanted, int64_t n,
                                 std::span<const std::string> names, uint64_t seed, HeldFor what) {
  const bool tests = what == HeldFor::kTests;
  const std::string key = tests ? "federation.held-out" : "federation.validation-clients";
  std::vector<char> chosen(to_index(n));
  for (const std::string& name : wanted.names) {
    std::vector<std::string> known(names.begin(), names.begin() + (names.empty() ? 0 : n));
    for (int64_t c = 0; c < n && names.empty(); ++c) known.push_back(std::to_string(c));
    auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      const auto whole = std::ranges::find_if(known, [&](const std::string& one) {
        return csv_field(one) != one && one.find(name) != one.npos;
      });
      throw InvalidArgument(fmt::format("no client is called '{}'", name), key,
                            whole == known.end()
                                ? suggestion(name, known)
                                : "a name with a comma stands in quotes: " + csv_field(*whole));
    }
    for (; found != known.end(); found = std::find(found + 1, known.end(), name)) {
      chosen[to_index(found - known.begin())] = 1;
    }
  }
  check_part(wanted.number, key);
  const int64_t number =
      wanted.names.empty() ? part_of(wanted.number, n) : std::ranges::count(chosen, char{1});
  if (number == 0) return chosen;
  if (number >= n) {
    throw InvalidArgument(
        fmt::format("holding {} of {} clients out leaves nobody to train", number, n), key,
        "hold fewer out");
  }
  if (!wanted.names.empty()) return chosen;
  std::vector<int64_t> order(to_index(n));
  std::iota(order.begin(), order.end(), 0);
  partition_stream(seed, tests ? PartitionStream::kHeldOut : PartitionStream::kValidationClients)
      .shuffle(std::span<int64_t>(order));
  for (int64_t i = 0; i < number; ++i) chosen[to_index(order[to_index(i)])] = 1;
  return chosen;
}

void require_left(const FederationOptions& federation, std::span<const std::string> names,
                  std::span<const std::string> left_out) {
  for (const auto& [key, wanted] :
       {std::pair("federation.held-out", &federation.held_out),
        {"federation.validation-clients", &federation.validation_clients}}) {
    for (const std::string& name : wanted->names) {
      if (std::ranges::count(left_out, name) == 0 || std::ranges::count(names, name) > 0) continue;
      throw InvalidArgument(
          fmt::format("no sample of the client '{}' is left", name), key,
          "its samples were left out when the data were read: data.missing = drop "
          "and data.labels do so, and clients of too little text");
    }
  }
}

std::vector<char> untrained_clients(int64_t n, std::vector<std::string> names,
                                    const FederationOptions& federation, uint64_t seed) {
  if (federation.held_out.is_none() && federation.validation_clients.is_none()) {
    return std::vector<char>(to_index(n));
  }
  std::vector<ClientRanges> clients(to_index(n));
  for (int64_t c = 0; c < n; ++c) clients[to_index(c)].begin = c;  // its number
  int64_t held_out = 0;
  hold_out(clients, names, held_out, federation.held_out, seed);
  hold_out(clients, names, held_out, federation.validation_clients, seed, HeldFor::kValidation);
  std::vector<char> untrained(clients.size());
  for (const ClientRanges& last : std::span(clients).last(to_index(held_out))) {
    untrained[to_index(last.begin)] = 1;
  }
  return untrained;
}

void hold_out(std::vector<ClientRanges>& clients, std::vector<std::string>& names,
              int64_t& held_out, const HeldOut& wanted, uint64_t seed, HeldFor what) {
  const auto chosen = chosen_clients(wanted, std::ssize(clients) - held_out, names, seed, what);
  held_out += std::ranges::count(chosen, char{1});
  move_behind(std::span(clients).first(chosen.size()), chosen);
  if (!names.empty()) move_behind(std::span(names).first(chosen.size()), chosen);
}

}  // namespace hanse
