#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/integer_noise.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostSamples = int64_t{1} << 30;

// The words of a trace, one after another.
class GivenWords {
 public:
  explicit GivenWords(const Json& trace) : words_(field(trace, "words", "trace")) {
    if (!words_.is_array()) throw InvalidArgument("expected an array of 64-bit words", "words");
  }

  uint64_t next() {
    if (used_ == words_.size()) {
      throw InvalidArgument(fmt::format("the {} words run out before the samples", used_), "words",
                            "more words, or fewer samples");
    }
    const Json& word = words_[used_];
    if (!word.is_number_unsigned()) {
      throw InvalidArgument(fmt::format("{} is no unsigned 64-bit integer", word.dump()),
                            fmt::format("words[{}]", used_));
    }
    ++used_;
    return word.get<uint64_t>();
  }
  std::size_t used() const { return used_; }

 private:
  const Json& words_;
  std::size_t used_ = 0;
};

template <class Law>
Json sampled(const Law& law, const Json& trace) {
  GivenWords words(trace);
  UniformWords uniform(words);
  Json samples = Json::array();
  const int64_t n = integer(field(trace, "samples", "trace"), 0, kMostSamples, "samples");
  for (int64_t i = 0; i < n; ++i) samples.push_back(law.draw(uniform));
  return {{"samples", samples}, {"used", words.used()}};
}

}  // namespace

Json replay_noise(const Json& trace, const Job& /*job*/, bool /*checks*/) {
  const Json& mechanism = trace.at("rule").at(kMechanismKey);
  const int64_t variance = integer(field(trace, "variance", "trace"), 0, INT64_MAX, "variance");
  if (mechanism == "discrete-gaussian") return sampled(DiscreteGaussian(variance), trace);
  if (mechanism == "skellam") return sampled(Skellam(variance), trace);
  throw InvalidArgument(fmt::format("{} has no integer sampler", mechanism.dump()),
                        fmt::format("rule.{}", kMechanismKey), "discrete-gaussian or skellam");
}

}  // namespace hanse
