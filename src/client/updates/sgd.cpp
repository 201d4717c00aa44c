// Mini-batch SGD as it is, drawn to the received model (prox), or counted by steps (fednova).
#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

class Sgd final : public PassUpdate {
 public:
  // mu: weight of the proximal term.
  Sgd(const ClientOptions& options, const Federation& federation, Model& model, double mu,
      bool counts_steps = false)
      : PassUpdate(options, federation, model, {{.mu = mu}}), counts_steps_(counts_steps) {}

  bool counts_steps() const override { return counts_steps_; }

 private:
  bool counts_steps_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model) {
  return std::make_unique<Sgd>(options, federation, model, 0);
}

std::unique_ptr<LocalUpdate> make_prox(const ClientOptions& options, const Federation& federation,
                                       Model& model) {
  return std::make_unique<Sgd>(options, federation, model, options.mu);
}

std::unique_ptr<LocalUpdate> make_fednova(const ClientOptions& options,
                                          const Federation& federation, Model& model) {
  return std::make_unique<Sgd>(options, federation, model, 0, /*counts_steps=*/true);
}

}  // namespace hanse
