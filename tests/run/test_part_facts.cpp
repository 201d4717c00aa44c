// What a checkpoint keeps of files and of what trains.
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/torch_library.hpp"
#include "run/results/facts.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

struct Parts final : Assembly {
  explicit Parts(Communicator& comm) : Assembly(comm) {}
  Protocol& protocol() override { throw Error("has none"); }
  void plan(const PlanCase&, PlanSheet&) override {}
};

TEST(PartFacts, OtherFilesAndDevicesAreRefused) {
  const auto comm = make_single_communicator();
  Parts parts(*comm);
  parts.files["model.path"] = "0123";
  parts.trained_on = "GPU X, compute capability 9.0";
  State state;
  state.put_part("files", part_facts(parts));
  EXPECT_NO_THROW(require_same_parts(parts, state));
  parts.trained_on = "cpu";
  expect_error<InvalidArgument>([&] { require_same_parts(parts, state); },
                                {"GPU X", "cpu", "run.device", "hint"});
  parts.trained_on = "GPU X, compute capability 9.0";
  parts.files["model.path"] = "4567";
  expect_error<InvalidArgument>([&] { require_same_parts(parts, state); },
                                {"model.path", "changed", "hint"});
}

TEST(PartFacts, AnotherLibTorchIsTold) {
  const auto comm = make_single_communicator();
  const Parts parts(*comm);
  torch_library();
  const auto said = [&](State facts) {
    State state;
    state.put_part("files", std::move(facts));
    testing::internal::CaptureStderr();
    require_same_parts(parts, state);
    return testing::internal::GetCapturedStderr();
  };
  State facts = part_facts(parts);
  EXPECT_EQ(said(facts), "");
  facts.put_text("libtorch", "9.9.9");
  const std::string text = said(facts);
  EXPECT_NE(text.find("by LibTorch 9.9.9, the others will be by"), std::string::npos) << text;
  EXPECT_NE(text.find("HANSE_TORCH"), std::string::npos) << text;
}

}  // namespace
}  // namespace hanse
