// Traces of the integer samplers of noise.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "rules/privacy/word_sources.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;
using Samples = std::vector<int64_t>;

Json trace(const std::string& mechanism, int64_t variance, int64_t samples, int64_t words = 300) {
  SplitMix mix;
  Json result = {{"rule", {{"privacy.mechanism", mechanism}}},
                 {"variance", variance},
                 {"words", Json::array()},
                 {"samples", samples}};
  for (int64_t i = 0; i < words; ++i) result["words"].push_back(mix.next());
  return result;
}

Json replayed(const Json& given) { return Json::parse(replay(given.dump())); }

void expect_samples(const Json& given, const Samples& samples, int64_t used) {
  const Json result = replayed(given);
  EXPECT_EQ(result.at("samples").get<Samples>(), samples);
  EXPECT_EQ(result.at("used"), used);
}

TEST(ReplayNoise, MakesTheKnownSamplesOfItsWords) {
  expect_samples(trace("discrete-gaussian", 4, 12), {1, 1, 3, 2, 2, -1, 2, -3, -1, -3, 3, 1}, 285);
  expect_samples(trace("discrete-gaussian", int64_t{1} << 40, 3), {-1642660, 423774, -784582},
                 replayed(trace("discrete-gaussian", int64_t{1} << 40, 3)).at("used"));
  expect_samples(trace("skellam", 8, 12), {3, -5, 1, 0, 0, -3, 2, -2, -2, 1, 1, 0}, 292);
  expect_samples(trace("skellam", 8, 0), {}, 0);
}

TEST(ReplayNoise, TakesTheLastWordAndNoMore) {
  expect_samples(trace("discrete-gaussian", 4, 12, 285), {1, 1, 3, 2, 2, -1, 2, -3, -1, -3, 3, 1},
                 285);
  expect_error<InvalidArgument>([] { replay(trace("discrete-gaussian", 4, 12, 284).dump()); },
                                {"the 284 words run out"});
  expect_error<InvalidArgument>([] { replay(trace("skellam", 8, 12, 291).dump()); },
                                {"the 291 words run out"});
}

TEST(ReplayNoise, RefusesWhatCannotBeDrawn) {
  expect_error<InvalidArgument>([] { replay(trace("skellam", 7, 1).dump()); }, {"even number"});
  expect_error<InvalidArgument>([] { replay(trace("discrete-gaussian", 0, 1).dump()); },
                                {"variance 0"});
  expect_error<InvalidArgument>([] { replay(trace("gaussian", 4, 1).dump()); },
                                {"rule.privacy.mechanism", "discrete-gaussian or skellam"});
  for (const Json& word : {Json(-1), Json(0.5), Json(1e30), Json("7")}) {
    Json bad = trace("skellam", 8, 1);
    bad["words"][1] = word;
    expect_error<InvalidArgument>([&] { replay(bad.dump()); }, {"unsigned 64-bit", "words[1]"});
  }
  Json missing = trace("skellam", 8, 1);
  missing.erase("words");
  expect_error<InvalidArgument>([&] { replay(missing.dump()); }, {"words"});
  Json other = trace("skellam", 8, 1);
  other["rule"]["privacy.words"] = "many";
  expect_error<InvalidArgument>([&] { replay(other.dump()); }, {"rule.privacy.words"});
}

TEST(ReplayNoise, IsPure) {
  expect_error<InvalidArgument>([] { check_replay(trace("skellam", 7, 1).dump()); }, {"even"});
  EXPECT_NE(check_replay(trace("skellam", 8, 3).dump()).find("privacy.mechanism = skellam is pure"),
            std::string::npos);
}

}  // namespace
}  // namespace hanse
