#include "hanse/rules/clock/options.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

// "lognormal(1, 0.6)", "always" or "0.5".
struct Phrase {
  std::string word;             // empty: the text is a number
  std::vector<double> numbers;  // finite or not
};

// Nothing: the text has another form.
std::optional<Phrase> phrase_of(std::string_view text) {
  if (const auto number = number_in(text)) return Phrase{"", {*number}};
  const auto open = text.find('(');
  Phrase phrase{std::string(trim(text.substr(0, open))), {}};
  if (open == std::string_view::npos) return phrase;
  if (text.back() != ')') return std::nullopt;
  for (const std::string& item : split_list(text.substr(open + 1, text.size() - open - 2))) {
    const auto number = number_in(item);
    if (!number) return std::nullopt;
    phrase.numbers.push_back(*number);
  }
  return phrase;
}

// Is it this word, with numbers that lie in these ranges?
bool is(const std::optional<Phrase>& phrase, std::string_view word,
        std::initializer_list<Range> ranges = {}) {
  if (!phrase || phrase->word != word || phrase->numbers.size() != ranges.size()) return false;
  auto number = phrase->numbers.begin();
  return std::all_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.contains(*number++); });
}

InvalidArgument unknown(std::string_view text, const char* known) {
  return InvalidArgument(fmt::format("unknown value '{}'", text), "",
                         fmt::format("known: {}", known));
}

constexpr const char* kDistributions =
    "constant(x), uniform(a, b), lognormal(mu, sigma), halfnormal(min, sd), exponential(mean), "
    "pareto(alpha, min), of positive numbers";

bool has_two_numbers(DistributionKind kind) {
  return kind != DistributionKind::kConstant && kind != DistributionKind::kExponential;
}

bool is_distribution(DistributionKind kind, const std::optional<Phrase>& phrase) {
  const std::string word = name_of(kind);
  switch (kind) {
    case DistributionKind::kConstant:
    case DistributionKind::kExponential: return is(phrase, word, {above(0)});
    case DistributionKind::kUniform:
      return is(phrase, word, {above(0), at_least(0)}) && phrase->numbers[0] <= phrase->numbers[1];
    case DistributionKind::kLognormal: return is(phrase, word, {Range{}, at_least(0)});
    case DistributionKind::kHalfnormal:
      return is(phrase, word, {at_least(0), at_least(0)}) &&
             phrase->numbers[0] + phrase->numbers[1] > 0;
    case DistributionKind::kPareto: return is(phrase, word, {above(0), above(0)});
  }
  return false;
}

}  // namespace

Distribution Distribution::parse(std::string_view text) {
  const auto phrase = phrase_of(text);
  for (const auto kind : all_of<DistributionKind>()) {
    if (!is_distribution(kind, phrase)) continue;
    return {
        .kind = kind, .a = phrase->numbers[0], .b = has_two_numbers(kind) ? phrase->numbers[1] : 0};
  }
  throw unknown(text, kDistributions);
}

std::string Distribution::text() const {
  return has_two_numbers(kind) ? fmt::format("{}({},{})", name_of(kind), a, b)
                               : fmt::format("{}({})", name_of(kind), a);
}

LinkRate LinkRate::parse(std::string_view text) {
  if (text == "inf") return {};
  try {
    return {.mbit = Distribution::parse(text)};
  } catch (const InvalidArgument&) {
    throw unknown(text, fmt::format("inf, {}", kDistributions).c_str());
  }
}

std::string LinkRate::text() const { return std::isinf(mbit.a) ? "inf" : mbit.text(); }

OnLineOptions OnLineOptions::parse(std::string_view text) {
  const auto phrase = phrase_of(text);
  if (is(phrase, "always")) return {};
  if (is(phrase, "file")) return {.kind = OnLineKind::kFile};
  if (is(phrase, "markov", {above(0), above(0)})) {
    return {.kind = OnLineKind::kMarkov, .a = phrase->numbers[0], .b = phrase->numbers[1]};
  }
  if (is(phrase, "diurnal", {above(0), above_to(0, 1)})) {
    return {.kind = OnLineKind::kDiurnal, .a = phrase->numbers[0], .b = phrase->numbers[1]};
  }
  throw unknown(text,
                "always, markov(on, off) and diurnal(period, share), in seconds above 0 and a "
                "share in (0, 1], file");
}

std::string OnLineOptions::text() const {
  switch (kind) {
    case OnLineKind::kMarkov: return fmt::format("markov({},{})", a, b);
    case OnLineKind::kDiurnal: return fmt::format("diurnal({},{})", a, b);
    case OnLineKind::kFile: return "file";
    case OnLineKind::kAlways: break;
  }
  return "always";
}

LostOptions LostOptions::parse(std::string_view text) {
  const auto phrase = phrase_of(text);
  if (is(phrase, "file")) return {.by_file = true};
  if (is(phrase, "", {from_below(0, 1)})) return {.probability = phrase->numbers[0]};
  throw unknown(text, "a probability in [0, 1), file");
}

std::string LostOptions::text() const { return by_file ? "file" : fmt::format("{}", probability); }

DeadlineOptions DeadlineOptions::parse(std::string_view text) {
  const auto phrase = phrase_of(text);
  if (is(phrase, "", {above(0)})) return {.seconds = phrase->numbers[0]};
  if (is(phrase, "quantile", {above_to(0, 1)})) return {.quantile = phrase->numbers[0]};
  throw unknown(text, "seconds above 0, quantile(p) with p in (0, 1]");
}

std::string DeadlineOptions::text() const {
  return quantile > 0 ? fmt::format("quantile({})", quantile) : fmt::format("{}", seconds);
}

int64_t ClockOptions::draws(int64_t per_round) const {
  return ceil_of_product(over_select * static_cast<double>(per_round));
}

}  // namespace hanse
