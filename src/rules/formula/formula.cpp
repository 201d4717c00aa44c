#include "hanse/rules/formula/formula.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

using Numbers = std::vector<double>;

constexpr std::size_t kLongest = 1000;  // characters, and so the deepest nesting

double sum_of(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0); }
Numbers same(const Numbers& x, double value) { return Numbers(x.size(), value); }

Numbers ranks(const Numbers& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  Numbers result(x.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && x[order[end]] == x[order[begin]];) ++end;
    const double shared = static_cast<double>(begin + 1 + end) / 2;  // first rank + last rank
    for (std::size_t i = begin; i < end; ++i) result[order[i]] = shared;
  }
  return result;
}

double least(const Numbers& x) { return *std::min_element(x.begin(), x.end()); }
double largest(const Numbers& x) { return *std::max_element(x.begin(), x.end()); }

// A function's forms, of one argument, of two and over all; null: it has no such form.
struct Function {
  const char* name;
  double (*of_one)(double) = nullptr;
  double (*of_two)(double, double) = nullptr;
  Numbers (*of_all)(const Numbers&) = nullptr;
};

constexpr Function kFunctions[] = {
    {.name = "exp", .of_one = [](double x) { return std::exp(x); }},
    {.name = "log", .of_one = [](double x) { return std::log(x); }},
    {.name = "sqrt", .of_one = [](double x) { return std::sqrt(x); }},
    {.name = "abs", .of_one = [](double x) { return std::abs(x); }},
    {.name = "pow", .of_two = [](double x, double y) { return std::pow(x, y); }},
    {.name = "min",
     .of_two = [](double x, double y) { return std::min(x, y); },
     .of_all = [](const Numbers& x) { return same(x, least(x)); }},
    {.name = "max",
     .of_two = [](double x, double y) { return std::max(x, y); },
     .of_all = [](const Numbers& x) { return same(x, largest(x)); }},
    {.name = "sum", .of_all = [](const Numbers& x) { return same(x, sum_of(x)); }},
    {.name = "mean",
     .of_all = [](const Numbers& x) { return same(x, sum_of(x) / static_cast<double>(x.size())); }},
    {.name = "rank", .of_all = ranks}};

}  // namespace

// Recursive descent: sums of products of signed values.
class Formula::Parser {
 public:
  explicit Parser(Formula& formula) : formula_(formula), text_(formula.text_) {}

  void parse() {
    if (trim(text_).empty()) {
      throw InvalidArgument("the formula is empty", formula_.where_,
                            "names: " + join(formula_.names_, ", "));
    }
    if (text_.size() > kLongest) {
      throw InvalidArgument(fmt::format("the formula has more than {} characters", kLongest),
                            formula_.where_);
    }
    sum();
    skip_blanks();
    if (at_ < text_.size()) refuse(fmt::format("unexpected '{}'", text_[at_]), at_);
  }

 private:
  // The place is marked within the text, so that the message is one line.
  [[noreturn]] void refuse(const std::string& what, std::size_t at,
                           const std::string& hint = "") const {
    const auto marked = fmt::format("{}-->{}", text_.substr(0, at), text_.substr(at));
    throw InvalidArgument(fmt::format("{} at column {}: {}", what, at + 1, marked), formula_.where_,
                          hint);
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool takes(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (takes(c)) return;
    const auto found = at_ < text_.size() ? fmt::format(", found '{}'", text_[at_]) : "";
    refuse(fmt::format("expected '{}'{}", c, found), at_);
  }
  void emit(Step step) { formula_.steps_.push_back(step); }

  void sum() {
    product();
    for (;;) {
      if (takes('+')) {
        product();
        emit(OfTwo([](double x, double y) { return x + y; }));
      } else if (takes('-')) {
        product();
        emit(OfTwo([](double x, double y) { return x - y; }));
      } else {
        return;
      }
    }
  }
  void product() {
    signed_value();
    for (;;) {
      if (takes('*')) {
        signed_value();
        emit(OfTwo([](double x, double y) { return x * y; }));
      } else if (takes('/')) {
        signed_value();
        emit(OfTwo([](double x, double y) { return x / y; }));
      } else {
        return;
      }
    }
  }
  void signed_value() {
    if (takes('-')) {
      signed_value();
      emit(OfOne([](double x) { return -x; }));
    } else {
      value();
    }
  }
  void value() {
    if (takes('(')) {
      sum();
      return expect(')');
    }
    if (at_ == text_.size()) refuse("expected a value", at_);
    const std::size_t begin = at_;
    const auto first = static_cast<unsigned char>(text_[at_]);
    if (std::isdigit(first) || first == '.') return number(begin);
    if (!std::isalpha(first)) refuse(fmt::format("unexpected '{}'", text_[at_]), at_);
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    takes('(') ? call(word, begin) : name(word, begin);
  }
  void number(std::size_t begin) {
    const auto is_part = [&](std::size_t i) {
      const char c = text_[i];
      const bool is_sign = (c == '+' || c == '-') && std::tolower(text_[i - 1]) == 'e';
      return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || (i > begin && is_sign);
    };
    while (at_ < text_.size() && is_part(at_)) ++at_;
    const auto value = number_in(text_.substr(begin, at_ - begin));
    if (!value) refuse("no number", begin);
    emit(*value);
  }
  void name(const std::string& word, std::size_t begin) {
    const auto& names = formula_.names_;
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) {
      refuse(fmt::format("unknown name '{}'", word), begin, "names: " + join(names, ", "));
    }
    emit(Name{static_cast<std::size_t>(found - names.begin())});
  }
  void call(const std::string& word, std::size_t begin) {
    const auto* function =
        std::find_if(std::begin(kFunctions), std::end(kFunctions),
                     [&](const Function& candidate) { return candidate.name == word; });
    if (function == std::end(kFunctions)) {
      std::vector<std::string> known;
      for (const Function& one : kFunctions) known.emplace_back(one.name);
      refuse(fmt::format("unknown function '{}'", word), begin, suggestion(word, known));
    }
    int arguments = 1;
    for (sum(); takes(',');) {
      sum();
      ++arguments;
    }
    expect(')');
    if (arguments == 1 && function->of_one) return emit(function->of_one);
    if (arguments == 1 && function->of_all) return emit(function->of_all);
    if (arguments == 2 && function->of_two) return emit(function->of_two);
    const bool takes_one = function->of_one || function->of_all;
    const char* right = !function->of_two ? "1" : takes_one ? "1 or 2" : "2";
    refuse(fmt::format("{}() takes {} values, not {}", word, right, arguments), begin);
  }

  Formula& formula_;
  const std::string& text_;
  std::size_t at_ = 0;
};

Formula::Formula(std::string text, std::vector<std::string> names, std::string where)
    : text_(std::move(text)), where_(std::move(where)), names_(std::move(names)) {
  Parser(*this).parse();
}

bool Formula::uses(std::string_view name) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    const auto* found = std::get_if<Name>(&step);
    return found && names_[found->index] == name;
  });
}

std::vector<double> Formula::evaluate(const std::vector<std::span<const double>>& values,
                                      std::size_t size) const {
  std::vector<Numbers> stack;
  const auto all = [&](double value) { stack.push_back(Numbers(size, value)); };
  for (const Step& step : steps_) {
    if (const auto* number = std::get_if<double>(&step)) {
      all(*number);
    } else if (const auto* name = std::get_if<Name>(&step)) {
      const auto known = values[name->index];
      if (known.size() == 1) {
        all(known[0]);
      } else {
        stack.emplace_back(known.begin(), known.end());
      }
    } else if (const auto* of_one = std::get_if<OfOne>(&step)) {
      std::transform(stack.back().begin(), stack.back().end(), stack.back().begin(), *of_one);
    } else if (const auto* of_all = std::get_if<OfAll>(&step)) {
      stack.back() = (*of_all)(stack.back());
    } else {
      const Numbers right = std::move(stack.back());
      stack.pop_back();
      std::transform(stack.back().begin(), stack.back().end(), right.begin(), stack.back().begin(),
                     std::get<OfTwo>(step));
    }
  }
  return std::move(stack.back());
}

void require_weights(const Formula& formula, std::span<const double> values,
                     std::span<const int64_t> clients, int64_t round) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    if (std::isfinite(values[i]) && values[i] >= 0) continue;
    const int64_t client = clients.empty() ? static_cast<int64_t>(i) : clients[i];
    throw InvalidArgument(fmt::format("'{}' is {} for client {} in round {}", formula.text(),
                                      number_text(values[i]), client, round),
                          formula.where(), "it must be finite and not negative");
  }
  if (sum > 0 && std::isfinite(sum)) return;
  throw InvalidArgument(fmt::format("'{}' sums to {} over the clients of round {}", formula.text(),
                                    number_text(sum), round),
                        formula.where(), "somebody must count");
}

}  // namespace hanse
