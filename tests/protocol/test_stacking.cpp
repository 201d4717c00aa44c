// FLoRA's merge: participants' products in the order of the draw, wherever they were trained.
#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/protocol/stacking.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// W [3, 2] of a linear model with A [1, 2] and B [3, 1], a row of 5.
std::unique_ptr<PartModel> flora_model(Communicator& host) {
  const TrainedPart part{.rank = 1, .layers = {"*"}, .scale = 0.5F, .moves_base = true};
  auto model =
      std::make_unique<PartModel>(make_model({.kind = "linear", .bias = false}, {2}, 3), part);
  model->hold(host, 1);
  return model;
}

std::vector<float> matrix(const PartModel& model) {
  const std::vector<float> all = model.whole(std::vector<float>(5), true).row;
  return {all.begin(), all.begin() + 6};
}

// Products of one size: 1e17, -1e17 and 2. In float64 1e17 + 2 = 1e17.
std::vector<std::vector<float>> rows_in(const std::vector<int>& order) {
  const std::vector<std::vector<float>> rows = {
      {1e8F, 1e8F, 1e9F, 1e9F, 1e9F}, {1e8F, 1e8F, -1e9F, -1e9F, -1e9F}, {1, 1, 2, 2, 2}};
  std::vector<std::vector<float>> found;
  for (const int i : order) found.push_back(rows[static_cast<std::size_t>(i)]);
  return found;
}

// Each rank sees the places that it trained, the last first.
std::vector<float> change(int ranks, const std::vector<std::vector<float>>& drawn, double lr) {
  std::vector<float> changed(6);
  run_threads(ranks, [&](Communicator& comm) {
    const auto model = flora_model(comm);
    const std::vector<float> before = matrix(*model);
    const auto part = make_stacking({comm, comm, *model, {.lr = lr}, /*merges=*/true});
    part->drawn(1);
    for (int place = 2; place >= 0; --place) {
      if ((place + 1) % ranks != comm.rank()) continue;
      part->sees({place, 1, drawn[static_cast<std::size_t>(place)], false, {}});
    }
    UpdateSum sum(5, 3, Reduction::kExact);
    part->closes(sum);
    std::vector<float> theta(5);
    if (comm.rank() == 0) part->stepped(1, theta);
    part->finishes();
    const std::vector<float> after = matrix(*model);
    if (comm.rank() != 0) return;
    for (std::size_t i = 0; i < after.size(); ++i) changed[i] = after[i] - before[i];
  });
  return changed;
}

TEST(Stacking, MergesInTheOrderOfTheDraw) {
  for (const int ranks : {1, 2, 3}) {
    EXPECT_EQ(change(ranks, rows_in({0, 2, 1}), 1), std::vector<float>(6, 0)) << ranks;
    for (const float moved : change(ranks, rows_in({0, 1, 2}), 1)) EXPECT_NEAR(moved, 1, 1e-6);
  }
}

TEST(Stacking, GoesAsFarAsTheServersRate) {
  for (const float moved : change(2, rows_in({0, 1, 2}), 0.25)) EXPECT_NEAR(moved, 0.25, 1e-6);
}

}  // namespace
}  // namespace hanse
