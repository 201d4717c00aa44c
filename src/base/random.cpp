#include "hanse/base/random.hpp"

#include <cmath>
#include <cstring>

#include <Random123/philox.h>

#include "hanse/base/uniform.hpp"

namespace hanse {

RandomStream::RandomStream(uint64_t seed, Purpose purpose, uint64_t round, uint64_t client)
    : key_{seed, static_cast<uint64_t>(purpose)}, counter_{0, round, client, 0} {}

void RandomStream::refill() {
  const r123::Philox4x64::ctr_type counter{{counter_[0], counter_[1], counter_[2], counter_[3]}};
  const r123::Philox4x64::key_type key{{key_[0], key_[1]}};
  const auto out = r123::Philox4x64{}(counter, key);
  for (std::size_t i = 0; i < 4; ++i) block_[i] = out[i];
  ++counter_[0];
  used_ = 0;
}

void RandomStream::seek(uint64_t index) {
  counter_[0] = index / 4;
  refill();
  used_ = static_cast<int>(index % 4);
}

int64_t RandomStream::below(int64_t n) {
  return static_cast<int64_t>(uniform_below(*this, static_cast<uint64_t>(n)));
}

double RandomStream::normal() { return standard_normal(*this); }

double RandomStream::gamma(double shape) {
  if (shape < 1.0) {  // Gamma(a) = Gamma(a + 1) U^{1/a}
    const double boosted = gamma(shape + 1.0);
    return boosted * std::pow(1.0 - uniform(), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double root = 1.0 + c * x;
    const double u = 1.0 - uniform();
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

void RandomStream::fill(std::span<uint8_t> bytes) {
  std::size_t done = 0;
  for (; done + 8 <= bytes.size(); done += 8) {
    const uint64_t bits = next();
    std::memcpy(bytes.data() + done, &bits, 8);
  }
  if (done < bytes.size()) {
    const uint64_t bits = next();
    std::memcpy(bytes.data() + done, &bits, bytes.size() - done);
  }
}

}  // namespace hanse
