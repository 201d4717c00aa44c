// Expressions that a user writes: one number for each of several clients.
//
//   n * exp(2 * F)        min(lambda, 0.1) / (1 + rank(norm))
//
// Numbers, names, + - * / and parentheses; functions of each number: exp log sqrt abs, pow(x, y),
// min(x, y), max(x, y); over all of them: sum(x), mean(x), min(x), max(x), and rank(x), which is 1
// for the smallest and shared by equal ones as the mean of their ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hanse {

class Formula {
 public:
  // `names`: those that the expression may use; `where`: the option. Parses once. Throws
  // InvalidArgument that shows the place in the text and its column.
  Formula(std::string text, std::vector<std::string> names, std::string where);

  bool uses(std::string_view name) const;
  // Evaluates with `values[i]` for names[i]: [size], or [1] for all; unused names are ignored.
  // Cost: a pass over [size] for each operation, rank() O(size log size).
  std::vector<double> evaluate(const std::vector<std::span<const double>>& values,
                               std::size_t size) const;

  const std::string& text() const { return text_; }
  const std::string& where() const { return where_; }

 private:
  using Numbers = std::vector<double>;
  struct Name {
    std::size_t index;
  };
  using OfOne = double (*)(double);
  using OfTwo = double (*)(double, double);
  using OfAll = Numbers (*)(const Numbers&);
  using Step = std::variant<double, Name, OfOne, OfTwo, OfAll>;
  class Parser;

  std::string text_, where_;
  std::vector<std::string> names_;
  std::vector<Step> steps_;  // each takes its arguments from a stack, and leaves its result there
};

// Throws InvalidArgument that names the formula, the client and the value, unless all are finite
// and not negative, and one is positive. `values` are of `clients`, in the same order; empty: of
// 0, 1, ...
void require_weights(const Formula& formula, std::span<const double> values,
                     std::span<const int64_t> clients, int64_t round);

}  // namespace hanse
