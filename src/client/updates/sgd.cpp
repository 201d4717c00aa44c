// Mini-batch SGD as it is, drawn to the received model (prox), or counted by steps (fednova).
#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

class Sgd final : public PassUpdate {
 public:
  Sgd(const ClientOptions& options, const Federation& federation, Model& model, const Pass& pass,
      bool counts_steps = false)
      : PassUpdate(options, federation, model, {pass}), counts_steps_(counts_steps) {}

  bool counts_steps() const override { return counts_steps_; }

 private:
  bool counts_steps_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model) {
  return std::make_unique<Sgd>(options, federation, model, Pass());
}

std::unique_ptr<LocalUpdate> make_prox(const ClientOptions& options, const Federation& federation,
                                       Model& model) {
  return std::make_unique<Sgd>(options, federation, model, Pass{.mu = options.mu});
}

std::unique_ptr<LocalUpdate> make_fednova(const ClientOptions& options,
                                          const Federation& federation, Model& model) {
  return std::make_unique<Sgd>(options, federation, model, Pass(), /*counts_steps=*/true);
}

}  // namespace hanse
