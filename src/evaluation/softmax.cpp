#include "hanse/evaluation/softmax.hpp"

#include <algorithm>
#include <cmath>

namespace hanse {

void softmax(std::span<const float> z, std::span<double> p) {
  const auto largest = static_cast<double>(*std::ranges::max_element(z));
  double sum = 0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    p[k] = std::exp(static_cast<double>(z[k]) - largest);
    sum += p[k];
  }
  for (double& share : p) share /= sum;
}

}  // namespace hanse
