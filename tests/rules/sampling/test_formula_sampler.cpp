// Draws by a formula: what its names are, round by round.
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

const Numbers kSamples{10, 30, 60};

std::unique_ptr<ClientSampler> make(const std::string& formula) {
  return make_formula_sampler(formula, kSamples, 2, false);
}

void expect_probabilities(const ClientSampler& sampler, const Numbers& expected) {
  double sum = 0;
  for (const double one : expected) sum += one;
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(sampler.probability(c), expected[static_cast<std::size_t>(c)] / sum, 1e-15) << c;
  }
}

// A round in which these two report a and F.
void play(ClientSampler& sampler, const std::vector<int64_t>& clients, const Numbers& a,
          const Numbers& losses) {
  const Draw draw = sampler.impose(sampler.per_round(), clients);
  sampler.observe(draw, {.a = a, .losses = losses});
}

TEST(FormulaSampler, SamplesAndShares) {
  expect_probabilities(*make("n"), {10, 30, 60});
  expect_probabilities(*make("lambda + 0.1"), {0.2, 0.4, 0.7});
}

// Clients that have not taken part count as the mean of those that have.
TEST(FormulaSampler, LastFeedbackAndLoss) {
  const auto by_a = make("a"), by_loss = make("F");
  expect_probabilities(*by_a, {1, 1, 1});
  play(*by_a, {0, 2}, {3, 5}, {1, 2});
  play(*by_loss, {0, 2}, {3, 5}, {1, 2});
  expect_probabilities(*by_a, {3, 4, 5});
  expect_probabilities(*by_loss, {1, 1.5, 2});
  play(*by_a, {1, 2}, {7, 1}, {9, 9});
  expect_probabilities(*by_a, {3, 7, 1});
}

TEST(FormulaSampler, AgeAndRound) {
  const auto by_age = make("age"), by_round = make("n + 10 * round");
  expect_probabilities(*by_age, {1, 1, 1});
  play(*by_age, {0, 2}, {1, 1}, {1, 1});
  expect_probabilities(*by_age, {1, 2, 1});
  play(*by_age, {1, 2}, {1, 1}, {1, 1});
  expect_probabilities(*by_age, {2, 1, 1});
  expect_probabilities(*by_round, {20, 40, 70});
  play(*by_round, {0, 1}, {1, 1}, {1, 1});
  expect_probabilities(*by_round, {30, 50, 80});
}

TEST(FormulaSampler, GoesOnFromItsState) {
  const std::string formula = "n + sqrt(a) * exp(-F) + age / round";
  const auto one = make(formula), other = make(formula);
  play(*one, {0, 2}, {3, 5}, {1, 2});
  play(*one, {1, 2}, {7, 1}, {2, 1});
  State state;
  one->save(state);
  play(*other, {0, 1}, {1, 1}, {1, 1});
  other->load(state);
  for (int64_t round = 3; round < 20; ++round) {
    RandomStream stream(5, Purpose::kSampling, static_cast<uint64_t>(round)), same = stream;
    const Draw draw = one->draw(round, one->per_round(), stream),
               again = other->draw(round, other->per_round(), same);
    ASSERT_EQ(draw.clients, again.clients);
    ASSERT_EQ(draw.weights, again.weights);
    const Numbers a(draw.size(), static_cast<double>(round)), losses(draw.size(), 1.0);
    for (const auto& sampler : {one.get(), other.get()}) {
      sampler->observe(draw, {.a = a, .losses = losses});
    }
  }
}

TEST(FormulaSampler, ADrawSaysWhatIsWrong) {
  RandomStream stream(1, Purpose::kSampling, 1);
  expect_error<InvalidArgument>([&] { make("n - 20")->draw(1, 2, stream); },
                                {"'n - 20' is -10 for client 0 in round 1", "sampler.formula"});
  expect_error<InvalidArgument>([] { make("norm"); }, {"unknown name 'norm'"});
  // A round that does not come is not looked at.
  const auto sampler = make("2 - round");
  play(*sampler, {0, 1}, {1, 1}, {1, 1});
  expect_error<InvalidArgument>([&] { sampler->draw(2, sampler->per_round(), stream); },
                                {"round 2"});
}

}  // namespace
}  // namespace hanse
