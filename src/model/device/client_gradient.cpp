#include <utility>

#include <ATen/ATen.h>

#include "device/client_lanes.hpp"
#include "device/device_masks.hpp"
#include "device/step_gradient.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class ClientGradient final : public StepGradient {
 public:
  ClientGradient(StepParts parts, ClientPasses& network, ClientLanes lanes)
      : parts_(std::move(parts)),
        network_(network),
        lanes_(std::move(lanes)),
        masks_(parts_.features.device()),
        moved_(at::zeros(parts_.buffers.sizes(), parts_.features.options())),
        means_(at::zeros({parts_.clients}, parts_.features.options().dtype(at::kDouble))) {
    for (int64_t client = 0; client < parts_.clients; ++client) {
      rows_.push_back(of_client(parts_.rows, client));
      gradients_.push_back(of_client(parts_.gradients, client));
      std::vector<at::Tensor>& places = places_of_moved_.emplace_back(rows_.back().size());
      int64_t first = 0;
      for (std::size_t i = parts_.trained; i < places.size(); ++i) {
        const at::Tensor& buffer = rows_.back()[i];
        places[i] = moved_[client].narrow(0, first, buffer.numel()).view(buffer.sizes());
        first += buffer.numel();
      }
    }
  }

  at::Tensor find(int64_t clients, const StepTotals& totals) override {
    const auto counts = parts_.noise.of_clients(parts_.table.number(), clients).counts;
    const at::Tensor means = means_.narrow(0, 0, clients);
    means.zero_();
    for (int64_t client = 0; client < clients; ++client) {
      const int64_t n = counts[to_index(client)];
      if (n == 0) continue;
      lanes_.run({client, n, totals.losses.defined()}, [&] { find_one(client, n, totals); });
    }
    lanes_.join();
    return means;
  }

  void move_buffers() const override {
    if (moved_.numel() == 0) return;
    const at::NoGradGuard no_grad;
    const at::Tensor acts = parts_.table.counts().gt(0).unsqueeze(1);
    parts_.buffers.copy_(at::where(acts, moved_, parts_.buffers));
  }

  void forget() override { lanes_.forget(); }

 private:
  // The gradient, the mean loss and the buffers of a client's n samples.
  void find_one(int64_t client, int64_t n, const StepTotals& totals) {
    const std::size_t place = to_index(client);
    if (network_.draws()) masks_.start(parts_.noise.seed_of(parts_.table, client));
    const at::Tensor order = parts_.table.places().narrow(0, client * parts_.batch, n);
    const at::Tensor logits =
        network_.forward(rows_[place], parts_.features.index_select(0, order), masks_);
    const auto [delta, means] =
        parts_.step_loss.differentiate(logits.unsqueeze(0), {client, 1, n}, totals);
    means_[client].copy_(means[0]);
    network_.move_buffers(places_of_moved_[place]);
    network_.backward(delta.view_as(logits), gradients_[place]);
  }

  static std::vector<at::Tensor> of_client(const std::vector<at::Tensor>& tensors, int64_t client) {
    std::vector<at::Tensor> own;
    for (const at::Tensor& tensor : tensors) own.push_back(tensor[client]);
    return own;
  }

  StepParts parts_;
  ClientPasses& network_;
  ClientLanes lanes_;
  DeviceMasks masks_;
  std::vector<std::vector<at::Tensor>> rows_, gradients_;  // views of each client's
  at::Tensor moved_;  // [C, values] buffers by each client's last passes ...
  std::vector<std::vector<at::Tensor>> places_of_moved_;  // ... in their places; others undefined
  at::Tensor means_;                                      // [C] of the last find()
};

}  // namespace

std::unique_ptr<StepGradient> make_client_gradient(StepParts parts, ClientPasses& network,
                                                   ClientLanes lanes) {
  return std::make_unique<ClientGradient>(std::move(parts), network, std::move(lanes));
}

}  // namespace hanse
