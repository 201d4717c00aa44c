#include "support.hpp"

namespace hanse {
namespace {

// With two classes the loss of a sample of class 1 is ln(1 + e^-s), of class 0 ln(1 + e^s).
TEST(Scores, TheLossFollowsFromThem) {
  for (const std::string kind : {"linear", "mlp", "lenet", "cnn-cifar"}) {
    for (const std::string loss : {"cross-entropy", "binary-logistic"}) {
      const std::vector<int64_t> shape = {1, 12, 12};
      const auto model = make_model(model_options(kind, loss, {7}), shape, 2);
      const auto row = initial_row(*model);
      const Samples samples(shape, 2, 33);
      std::vector<float> scores(34, -7);
      const EvaluationSums sums = model->evaluate(row, samples.batch(), {.scores = scores.data()});
      double expected = 0;
      double correct = 0;
      for (std::size_t r = 0; r < 33; ++r) {
        const double s = static_cast<double>(scores[r]);
        expected += std::log1p(std::exp(samples.labels[r] == 1 ? -s : s));
        correct += (s > 0) == (samples.labels[r] == 1) ? 1 : 0;
      }
      EXPECT_NEAR(sums.loss, expected, 1e-5 * expected) << kind << ", " << loss;
      EXPECT_EQ(sums.correct, correct) << kind << ", " << loss;
      EXPECT_EQ(scores.back(), -7);
      EXPECT_EQ(model->evaluate(row, samples.batch()).loss, sums.loss);
    }
  }
}

}  // namespace
}  // namespace hanse
