#include "hanse/rules/clock/ticks.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

std::string whose(int64_t client) {
  return client == kNobody ? std::string() : fmt::format("client {}", client);
}

constexpr const char* kHint = "virtual time ends after 2^62 microseconds";

}  // namespace

Ticks ticks_of(double seconds, int64_t client) {
  const double ticks = 1e6 * seconds;
  if (ticks >= 0 && ticks <= static_cast<double>(kMostTicks)) {
    return std::max<Ticks>(1, std::llrint(ticks));
  }
  throw InvalidArgument(fmt::format("{} seconds are no duration", number_text(seconds)),
                        whose(client), kHint);
}

void append_seconds(std::string& text, Ticks ticks) {
  constexpr Ticks kSecond = 1'000'000;
  const fmt::format_int whole(ticks / kSecond);
  text.append(whole.data(), whole.size());
  Ticks rest = ticks % kSecond;
  if (rest == 0) return;
  text += '.';
  for (Ticks unit = kSecond / 10; rest > 0; rest %= unit, unit /= 10) {
    text += static_cast<char>('0' + rest / unit);
  }
}

Ticks later(Ticks a, Ticks b, int64_t client) {
  Ticks sum = 0;
  if (!__builtin_add_overflow(a, b, &sum) && sum <= kMostTicks) return sum;
  throw InvalidArgument(fmt::format("{} microseconds after {} is too late", b, seconds_of(a)),
                        whose(client), kHint);
}

Ticks multiple(int64_t n, Ticks duration, int64_t client) {
  Ticks product = 0;
  if (!__builtin_mul_overflow(n, duration, &product) && product <= kMostTicks) return product;
  throw InvalidArgument(
      fmt::format("{} times {} seconds are too long", n, number_text(seconds_of(duration))),
      whose(client), kHint);
}

int64_t ceil_of_product(double x) { return static_cast<int64_t>(std::ceil(x - 1e-9)); }

}  // namespace hanse
