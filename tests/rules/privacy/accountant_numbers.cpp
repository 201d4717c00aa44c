// Prints what the accountant says of cases on standard input, for a comparison with others'.
//
//   ADJACENCY ATTENDANCE CLIENTS PER_ROUND NOISE ROUNDS DELTA     in, one case a line
//   RDP ORDER ZCDP PLD                                            out; nan: does not apply
#include <iostream>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/clipping.hpp"

namespace hanse {
namespace {

template <Choice T>
std::istream& operator>>(std::istream& in, T& choice) {
  std::string name;
  in >> name;
  const auto value = value_of<T>(name);
  if (value) choice = *value;
  if (!value) in.setstate(std::ios::failbit);
  return in;
}

int answer() {
  PrivacyTerms terms;
  double noise = 0, delta = 0;
  int64_t rounds = 0;
  while (std::cin >> terms.adjacency >> terms.attendance >> terms.clients >> terms.per_round >>
         noise >> rounds >> delta) {
    terms.check();
    constexpr int64_t kBound = int64_t{1} << 24;
    PrivacyAccountant accountant(terms);
    accountant.spend({kBound, Lattice{-24, kBound}.noise_variance(noise), 1}, rounds);
    const EpsilonBound rdp = accountant.rdp(delta);
    const double none = std::numeric_limits<double>::quiet_NaN();
    fmt::print("{} {} {} {}\n", rdp.epsilon, rdp.order, accountant.zcdp(delta).value_or(none),
               accountant.pld(delta).value_or(none));
  }
  return std::cin.eof() ? 0 : 2;
}

}  // namespace
}  // namespace hanse

int main() { return hanse::answer(); }
