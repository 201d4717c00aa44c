#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

class FedNtd final : public PassUpdate {
 public:
  FedNtd(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(options, federation, model, std::vector<Pass>{{}}),
        distills_(options.distillation > 0) {}

  bool trains_side_by_side() const override { return !distills_; }  // cohorts have no such loss

 private:
  bool distills_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_fedntd(const ClientOptions& options, const Federation& federation,
                                         Model& model) {
  return std::make_unique<FedNtd>(options, federation, model);
}

}  // namespace hanse
