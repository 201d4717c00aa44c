#include <algorithm>

#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

class Moon final : public PassUpdate {
 public:
  Moon(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(options, federation, model, {{.looks_back = options.mu > 0}},
                   kept(options, model)),
        contrasts_(options.mu > 0) {}

  bool trains_side_by_side() const override { return !contrasts_; }  // cohorts have no such loss

  Received beside(const ClientTask& task) const override {
    if (!contrasts_ || block(task.state, kKnown).front() == 0) return {};
    return {.row = {}, .last = block(task.state, kLast)};
  }

  bool after(std::size_t, const ClientTask& task, std::span<const float>,
             std::span<const float>) override {
    std::ranges::copy(task.row, block(task.state, kLast).begin());
    block(task.state, kKnown).front() = 1;
    return false;
  }

 private:
  // w^(t-1), and 1 once it is there.
  static constexpr const char* kLast = "last model";
  static constexpr const char* kKnown = "has last model";

  static std::vector<StateBlock> kept(const ClientOptions& options, const Model& model) {
    if (options.mu == 0) return {};
    return {{kLast, model.n_params()}, {kKnown, 1}};
  }

  bool contrasts_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_moon(const ClientOptions& options, const Federation& federation,
                                       Model& model) {
  return std::make_unique<Moon>(options, federation, model);
}

}  // namespace hanse
