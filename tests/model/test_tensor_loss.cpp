// Losses that tensors have, and what becomes of one that they do not have.
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "model/loss.hpp"
#include "model/networks/tensor_loss.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

// A loss without a rule, as one that is new in loss.cpp alone.
class Hinge final : public Loss {
 public:
  Hinge() : Loss(2) {}
  std::string name() const override { return "hinge"; }
  double loss_and_delta(const Batch&, float*) const override { return 0; }
  void delta_tangent(const Batch&, const float*, float*) const override {}

 private:
  double count_correct(const Batch&, const float*) const override { return 0; }
};

TEST(TensorLoss, RefusesALossThatHasNoTensors) {
  const at::Tensor z = at::zeros({3, 2}), labels = at::zeros({3}, at::kInt);
  const auto refuses = [](const auto& use) {
    expect_error<InvalidArgument>(use, {"no tensors of the loss hinge", "model.loss", "hint"});
  };
  refuses([&] { tensor_losses(Hinge(), z, labels, at::Reduction::Mean); });
  refuses([&] { guessed_right(Hinge(), z, labels); });
}

// Every name of make_loss() finds its own tensors: the values differ from loss to loss.
TEST(TensorLoss, EachLossHasItsOwn) {
  const at::Tensor z = at::full({1, 1}, 2.0F);
  const auto loss = [&](const char* name, const LabelForm& labels, const at::Tensor& target) {
    return tensor_losses(*make_loss(name, labels), z, target, at::Reduction::Mean).item<float>();
  };
  EXPECT_NEAR(loss("binary-logistic", 2, at::ones({1}, at::kInt)), 0.126928F, 1e-6F);  // ln(1+e^-2)
  EXPECT_NEAR(loss("squared-error", 0, at::full({1}, 5.0F)), 4.5F, 1e-6F);  // (2 - 5)^2 / 2
  const at::Tensor two = at::full({1, 2}, 2.0F);
  const at::Tensor cross = tensor_losses(*make_loss("cross-entropy", 2), two,
                                         at::ones({1}, at::kInt), at::Reduction::Mean);
  EXPECT_NEAR(cross.item<float>(), 0.693147F, 1e-6F);  // ln 2
}

}  // namespace
}  // namespace hanse
